"""Answer the agent's requests: <directory>/request-<pid>.json, read at the end of a step, at most twice a second.

A request is {"id": n, "op": "save" | "save_and_stop" | "threads" | "trial" | "workers", "path": ..., "threads": n,
"workers": n, "max_seconds": s} with increasing ids. Each is answered by one line {"event": "answer", "id": n, "ok": ..., ...}.
The ranks of a distributed training act at the same step: rank 0 writes the step to agreed-<MASTER_PORT>.json, which the
other ranks read. Each of them has announced itself by a file; if an announcement is missing or its process is dead, rank 0
refuses the request, because it would stop alone. Ranks on several machines use the store of their process group instead of
files, which a network file system may show too late.
"""

import json
import os
import sys

from . import termination
from .core import clock, compiled, group_store, observer, one_machine, thread_count

LARGEST = 64 << 10
AGREEMENT = 2.5  # seconds from a request to the step at which all ranks act; covers several polls of each rank
OPERATIONS = ("save", "save_and_stop", "threads", "trial", "workers")


class Requests:
    def __init__(self, owner):
        self.owner = owner
        self.rank, self.world = owner.rank()
        self.directory = os.path.dirname(owner.path)
        self.group = "".join(c for c in os.environ.get("MASTER_PORT", "") if c.isdigit())
        self.agreed = os.path.join(self.directory, "agreed-%s.json" % self.group)
        self.path = self.agreed if self.rank else os.path.join(self.directory, "request-%d.json" % owner.pid)
        self.seen = None  # identity of the last file read
        self.last = 0  # id of the last request
        self.waiting = None  # request scheduled for a later step
        self.saving = None  # save that the framework carries out later
        self.loading = None  # change of workers that waits for the next pass over the data
        self.store = None if one_machine(self.world) else group_store()
        if self.rank and self.store is not None:
            self.last = self.store.add("optimize/agreed", 0)
            self.store.add("optimize/rank-%d" % self.rank, 1)
        elif self.rank and self.group:
            self.read()  # discard an agreement from before this training
            self.last = 0
            with open(self.announcement(self.rank), "w", encoding="ascii") as f:
                f.write(str(owner.pid))

        adapter = owner.training.adapter
        if self.world == 1 and getattr(adapter, "save", None) and getattr(adapter, "stop", None):
            termination.install(self.stopping)

    def stopping(self):
        """Report whether the agent has asked for a save and a stop."""
        try:
            with open(self.path, "rb") as f:
                return json.loads(f.read(LARGEST)).get("op") == "save_and_stop"
        except (OSError, ValueError, AttributeError):
            return False

    def announcement(self, rank):
        return os.path.join(self.directory, "rank-%s-%d" % (self.group, rank))

    def complete(self):
        """Report whether all other ranks of this training read the agreement."""
        if self.store is not None:
            return all(self.store.add("optimize/rank-%d" % rank, 0) for rank in range(1, self.world))
        try:
            for rank in range(1, self.world):
                with open(self.announcement(rank), encoding="ascii") as f:
                    os.kill(int(f.read(20)), 0)
        except (OSError, ValueError):
            return False
        return bool(self.group)

    def read(self):
        """Return a new request, or None."""
        if self.rank and self.store is not None:
            id = self.store.add("optimize/agreed", 0)  # a counter, because not every version can test for a key
            if id <= self.last:
                return None
            self.last = id
            return json.loads(self.store.get("optimize/agreed-%d" % id))
        try:
            s = os.stat(self.path)
        except OSError:
            return None
        identity = (s.st_ino, s.st_mtime_ns, s.st_size)
        if identity == self.seen or s.st_size > LARGEST:
            return None
        self.seen = identity
        try:
            with open(self.path, "rb") as f:
                request = json.loads(f.read(LARGEST))
            id = int(request["id"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if id <= self.last:
            return None
        self.last = id
        return request

    def poll(self):
        if self.waiting is not None:
            if self.owner.training.step >= self.waiting["step"]:
                request, self.waiting = self.waiting, None
                self.act(request)
            else:
                self.owner.due = 0.0  # count every step until then
            return
        request = self.read()
        if request is None:
            return
        if request.get("op") not in OPERATIONS:
            self.answer(request, False, reason="unknown operation")
        elif self.world == 1:
            self.act(request)
        elif self.rank:
            self.waiting = request
            self.owner.due = 0.0
        elif self.store is None and not one_machine(self.world):
            self.answer(request, False, reason="the ranks are on several machines")
        elif not self.complete():
            self.answer(request, False, reason="not all ranks are observed")
        else:
            self.agree(request)

    def agree(self, request):
        t = self.owner.training
        if len(t.recent) < 3:  # the step time is not known yet: try again at the next poll
            self.seen, self.last = None, self.last - 1
            return
        request["step"] = t.step + 3 + int(AGREEMENT / max(min(t.recent), 1e-5))
        if self.store is not None:
            id = self.store.add("optimize/agreed", 0) + 1
            self.store.set("optimize/agreed-%d" % id, json.dumps(request))
            self.store.add("optimize/agreed", 1)
        else:
            temporary = "%s.%d" % (self.agreed, self.owner.pid)
            with open(temporary, "w", encoding="ascii") as f:
                json.dump(request, f)
            os.replace(temporary, self.agreed)
        self.waiting = request
        self.owner.due = 0.0

    def act(self, request):
        op, begun = request["op"], clock()
        try:
            if op in ("threads", "trial") and compiled():
                self.answer(request, False, reason="torch.compile would compile the model again", seconds=clock() - begun)
            elif op == "threads":
                before = set_threads(int(request["threads"]))
                self.answer(request, True, threads=thread_count(), before=before, seconds=clock() - begun)
            elif op == "trial":
                Trial(self, request)
            elif op == "workers":
                from . import workers
                workers.prepare(self, request)
            else:
                self.save(request, begun)
        except Exception as e:
            self.answer(request, False, reason=type(e).__name__, seconds=clock() - begun)
            observer.failed("request." + op, e)

    def save(self, request, begun):
        t = self.owner.training
        save, stop = getattr(t.adapter, "save", None), getattr(t.adapter, "stop", None)
        stopping = request["op"] == "save_and_stop"
        if save is None or stopping and stop is None:
            return self.answer(request, False, reason="the framework cannot save on request")
        self.saving = (request, begun)
        path = save(request.get("path") or "")
        if stopping:
            stop()
        if path is not None:
            self.saved(path)

    def saved(self, path):
        """Answer the save in progress, after the framework has written path."""
        if self.saving is None:
            return
        (request, begun), self.saving = self.saving, None
        self.answer(request, True, path=os.path.abspath(os.fsdecode(path)), step=self.owner.training.step,
                    stopped=request["op"] == "save_and_stop", seconds=clock() - begun)

    def abandon(self, reason):
        """Refuse all pending requests for the given reason."""
        for request in (self.waiting, self.loading, self.saving and self.saving[0], self.owner.trial and self.owner.trial.request):
            if request:
                self.answer(request, False, reason=reason)
        if self.owner.trial is not None:
            set_threads(self.owner.trial.counts[0])
        self.waiting = self.saving = self.loading = None

    def answer(self, request, ok, **fields):
        if not self.rank:
            if "seconds" in fields:
                fields["seconds"] = round(fields["seconds"], 4)
            self.owner.write("answer", id=request["id"], op=str(request.get("op"))[:40], ok=ok, **fields)


_first = []  # the number of threads before the first change; then MKL's own, 0 without one
_limited = []  # the change of threadpoolctl in force


def set_threads(n):
    """Set the numeric thread pools of this process; return the previous number of threads. The number before the first change restores
    them as they were."""
    if not 1 <= n <= 4096:
        raise ValueError("threads")
    before = thread_count()
    torch, pools = sys.modules.get("torch"), sys.modules.get("threadpoolctl")
    if torch is None and pools is None:
        raise NotImplementedError("no thread pool is known")
    if not _first:
        _first.append(before)
    while _limited:
        _limited.pop().__exit__(None, None, None)
    if pools is not None and n != _first[0]:  # MKL follows OpenMP
        _limited.append(pools.threadpool_limits(limits={p["prefix"]: n for p in pools.threadpool_info() if p["internal_api"] != "mkl"}))
    mkl = sys.modules.get("torch.backends.mkl")
    if mkl is not None and mkl.is_available():
        set_with_mkl(torch, n)
    elif torch is not None:
        torch.set_num_threads(n)
    return before


def set_with_mkl(torch, n):
    """Set the number of threads of PyTorch and MKL in this thread.

    torch.set_num_threads also gives MKL a number of its own, and with that MKL does not choose fewer threads for small matrices any more:
    the training of a small model takes 10 % longer from then on, whatever the number. MKL follows the number of OpenMP, which has no such
    effect, unless the script or an environment variable has given it its own.
    """
    import ctypes

    library = ctypes.CDLL(torch._C.__file__)  # and what it is linked with
    openmp, number, own = library.omp_set_num_threads, library.mkl_get_max_threads, library.MKL_Set_Num_Threads_Local
    if len(_first) == 1:
        _first.append(own(0))
    own(_first[1])
    openmp(n)
    if n != _first[0] and number() != n:
        own(n)


class Trial:
    """Compare two thread counts inside the training: steps at the current one, the other one, and the current one again."""

    SETTLE = 2  # uncounted steps after a change
    ENOUGH = 30  # steps per phase
    FEWEST = 5  # steps after which the trial of a clearly slower count is aborted
    SLOWER = 1.5
    STALL, MUCH = 0.05, 20  # one step of these seconds and times as long as before suffices; shorter ones are preemptions

    def __init__(self, requests, request):
        self.requests, self.request = requests, request
        self.counts = [thread_count(), int(request["threads"])]
        if self.counts[0] is None or not 1 <= self.counts[1] <= 4096:
            raise NotImplementedError("no thread pool is known")
        self.limit = min(600.0, max(0.1, float(request.get("max_seconds") or 30))) / 3
        self.measured = []  # seconds per step, one list per phase
        self.early = False
        requests.owner.trial = self
        self.phase(clock())

    def phase(self, now):
        self.measured.append([])
        self.settle = self.SETTLE
        self.until = now + self.limit

    def step(self, seconds, now):
        try:
            self.note(seconds, now)
        except Exception as e:
            self.requests.owner.trial = None
            observer.failed("trial", e)

    def note(self, seconds, now):
        steps, slower = self.measured[-1], False
        if self.settle > 0:
            self.settle -= 1
        else:
            steps.append(seconds)
        if len(self.measured) == 2 and self.measured[0]:
            reference = median(self.measured[0])
            slower = seconds > max(self.STALL, self.MUCH * reference) or len(steps) >= self.FEWEST and median(steps) > self.SLOWER * reference
            self.early = self.early or slower
        if len(steps) < self.ENOUGH and now < self.until and not slower:
            return
        if len(self.measured) < 3:
            set_threads(self.counts[len(self.measured) % 2])
            self.phase(now)
            return
        self.requests.owner.trial = None
        before, during, after = (median(m) for m in self.measured)
        self.requests.answer(self.request, bool(before is not None and during is not None), threads=thread_count(), before=self.counts[0],
                             tried=self.counts[1], seconds_before=before, seconds_tried=during, seconds_after=after,
                             steps=[len(m) for m in self.measured], given_up=self.early, reason=None if before and during else "too few steps in the time")


def median(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else None
