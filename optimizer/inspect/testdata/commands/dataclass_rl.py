from dataclasses import dataclass

import torch
import tyro


@dataclass
class Args:
    seed: int = 1
    """seed of the experiment"""
    total_timesteps: int = 40000
    num_envs: int = 4
    num_steps: int = 128
    update_epochs: int = 4
    batch_size: int = 0
    """computed at run time"""
    num_iterations: int = 0


if __name__ == "__main__":
    args = tyro.cli(Args)
    args.num_iterations = args.total_timesteps // 512
    for iteration in range(1, args.num_iterations + 1):
        for step in range(0, args.num_steps):
            pass
        for epoch in range(args.update_epochs):
            pass
