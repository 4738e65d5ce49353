"""A training of plain Python: loop.py STATE BATCHES SECONDS [EPOCHS]. Each rank prints the steps that it made."""
import json, os, sys, time
from optimize_lease import Lease

state, batches, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
epochs = int(sys.argv[4]) if len(sys.argv) > 4 else 1
rank = int(os.environ.get("RANK", 0))
seconds *= 1 + rank  # ranks of different speed, without any synchronisation of their own


def load():
    try:
        with open(state) as f:
            return json.load(f)["step"]
    except OSError:
        return None


def save(step):
    with open(state, "w") as f:
        json.dump({"step": step}, f)


lease = Lease(range(batches))
begin = lease.load(load) or 0
step = begin
print("ready", flush=True)
for epoch in range(epochs):
    for batch in lease:
        time.sleep(seconds)
        step += 1
    if lease.ended:
        break
print("steps", step - begin, "ended", lease.ended, flush=True)
if rank == 0:
    lease.save(save, step)
if lease.ended:
    lease.leave()
lease.complete()
