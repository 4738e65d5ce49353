"""A training by DistributedDataParallel over gloo, for torchrun: STEPS PACE, steps of PACE seconds each.

It contains the module optimize_hook, saves when it is asked to, and every 20 steps of its own; it continues from the
checkpoint. Each rank appends "JOB:PID STEP TIME" to the file steps-RANK beside the script at each step, by which a test
detects ranks that stop at different steps, lost steps and two lives at a time.
"""
import os
import sys
import time

import torch
import torch.distributed as dist

import optimize_hook

steps, pace = int(sys.argv[1]), float(sys.argv[2])
home = os.path.dirname(os.path.abspath(__file__))
torch.set_num_threads(1)
torch.manual_seed(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = torch.nn.Linear(8, 1)
parallel = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
saved = os.path.join(home, "snapshot.pt")
done = 0
if os.path.exists(saved):
    snapshot = torch.load(saved)
    model.load_state_dict(snapshot["model"])
    done = snapshot["step"]


def save(path=None):
    if rank == 0:
        torch.save({"model": model.state_dict(), "step": done}, saved + ".part")
        os.replace(saved + ".part", saved)
    return saved


with optimize_hook.run(total=steps, start=done, batch_size=4 * world, save=save) as run:
    while done < steps:
        x = torch.randn(4, 8)
        loss = ((parallel(x) - x.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(pace)
        done += 1
        with open(os.path.join(home, "steps-%d" % rank), "a") as f:
            f.write("%s:%d %d %.3f\n" % (os.environ["SLURM_JOB_ID"], os.getpid(), done, time.time()))
        if done % 20 == 0:
            save()
        run.step(samples=4, loss=loss.item())
        if run.should_stop:
            break
dist.barrier()
dist.destroy_process_group()
