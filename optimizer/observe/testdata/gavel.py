"""A training with the calls of Gavel's workloads."""
import os, sys, time
from optimize_lease import GavelIterator


def load_checkpoint(args, path):
    return int(open(path).read()) if os.path.exists(path) else None


def save_checkpoint(path, state):
    open(path, "w").write(str(state))


class Loader:
    dataset = "toy"

    def __len__(self):
        return 5

    def __iter__(self):
        return iter(range(5))


directory, steps = sys.argv[1], int(sys.argv[2])
path = os.path.join(directory, "model.chkpt")
loader = GavelIterator(Loader(), directory, load_checkpoint_func=load_checkpoint, save_checkpoint_func=save_checkpoint, synthetic_data=True)
cumulative = loader.load_checkpoint(None, path) or 0
print("ready", len(loader), loader.dataset, flush=True)
done, seen = False, set()
while not done and not loader.done:
    for i, batch in enumerate(loader):
        seen.add(batch)
        time.sleep(0.01)
        cumulative += 1
        if cumulative >= steps:
            done = True
            break
    if loader.done:
        break
    elif done:
        loader.complete()
        break
loader.save_checkpoint(path, cumulative)
print("steps", cumulative, "done", done, "batches", sorted(seen), flush=True)
