"""A training of torch.distributed over gloo, in one process per rank."""
import sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from optimize_lease import Lease

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader(torch.randn(1000000, 4), batch_size=2)
lease = Lease(loader)
print("ready", flush=True)
for batch in lease:
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
print("steps", lease.steps, "ended", lease.ended, flush=True)
dist.barrier()
if lease.ended:
    lease.leave()
