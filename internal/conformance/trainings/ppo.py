"""Stable-Baselines3 PPO on CartPole with a checkpoint each 5000 steps."""
import argparse

import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback

import truth


class Count(BaseCallback):
    def _on_step(self):
        truth.at(self.num_timesteps, 0, self.num_timesteps)
        return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--total-timesteps", type=int, default=30720)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    model = PPO("MlpPolicy", gym.make("CartPole-v1"), verbose=1, seed=args.seed, device="cpu")
    model.learn(total_timesteps=args.total_timesteps, callback=[CheckpointCallback(5000, "checkpoints"), Count()])
    model.save("ppo_cartpole")


if __name__ == "__main__":
    main()
