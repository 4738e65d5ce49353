"""Lease: iterate over training data until the lease of the job's devices ends.

    from optimize_lease import Lease

    lease = Lease(loader)
    state = lease.load(load_checkpoint, path)   # any function; its time is reported
    for epoch in range(start, epochs):
        for batch in lease:                     # ends on a batch boundary when the lease ends
            ...
        if lease.ended:
            break
    lease.save(save_checkpoint, path)
    if lease.ended:
        lease.leave()                           # exit code 75: start again later
    lease.complete()

The environment variable OPTIMIZER_LEASE is the path of a JSON file that the scheduler replaces:
{"n": renewals, "until": Unix time at which the lease ends (0: now, null: never), "at": Unix time at which it was
written, by the same clock, "grace_s": seconds for which it is valid beyond the end if the scheduler is silent, "epoch":
number of the stretch}. If the clocks of the machines differ, that of the file system relates them. Without the variable the iterator
passes the data through. SIGUSR1 and SIGTERM end the lease. A greater epoch in the file than that of this process
(OPTIMIZER_STRETCH, or that of the file at the start) means that another stretch of the same job has begun: the process
then exits with code 75 and saves nothing. All ranks of a distributed training (torch.distributed, or RANK
and WORLD_SIZE) stop after the same number of batches. Rank 0 appends its progress to the file of the same name with
the suffix .jsonl. Standard library only, Python 3.6 and later.

GavelIterator has the constructor and the methods of the iterator of the same name in Gavel's workloads.
"""

import atexit
import json
import os
import signal
import sys
import threading
import time

EXIT = 75  # EX_TEMPFAIL: the job saved its state and continues when it is started again
POLL = 0.2  # seconds between reads of the lease
REPORT = 1.0  # seconds between reports of progress
AHEAD = 1.0  # seconds of batches that rank 0 permits the other ranks at a time
SILENCE = 1800.0  # seconds without a word of rank 0 after which the other ranks exit


class _Job:
    """The lease of this process, shared by all its iterators."""

    def __init__(self):
        self.pid = os.getpid()
        self.path = os.environ.get("OPTIMIZER_LEASE", "")
        self.active = bool(self.path or os.environ.get("OPTIMIZER_RUN_ID"))
        self.reports = os.path.splitext(self.path)[0] + ".jsonl" if self.path else ""
        if not self.path and self.active and os.environ.get("OPTIMIZER_CHECKPOINT_DIR"):
            self.reports = os.path.join(os.environ["OPTIMIZER_CHECKPOINT_DIR"], "optimize_lease.jsonl")
        self.steps = 0  # batches over all passes
        self.before = 0  # batches of earlier stretches that the loaded state contains
        self.n = self.until = None
        self.read = None  # identity of the file at the last read
        self.epoch = self.newest = None
        self.signalled = ""
        self.reason = ""  # why the lease ended; empty while it holds
        self.completed = False
        self.polled = self.reported = 0.0
        self.began = self.stepping = time.monotonic()
        self.world = None  # ranks are known at the first batch
        if not self.active:
            return
        try:
            self.epoch = int(os.environ["OPTIMIZER_STRETCH"])
        except (KeyError, ValueError):
            pass
        self.poll()
        if self.epoch is None:
            self.epoch = self.newest
        self.terminated = 0.0
        self.previous = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGUSR1, signal.SIGTERM):
                self.previous[number] = signal.signal(number, self.on_signal)

    def on_signal(self, number, frame):
        before, now = self.previous[number], time.monotonic()
        if number == signal.SIGTERM and self.terminated and now - self.terminated > 2:
            signal.signal(number, signal.SIG_DFL)  # the second one ends the process
            os.kill(self.pid, number)
            return
        if number == signal.SIGTERM:
            self.terminated = self.terminated or now
        self.signalled = signal.Signals(number).name
        if callable(before) and before is not signal.default_int_handler:
            before(number, frame)

    def poll(self):
        """Read the lease if it was replaced. A missing or torn file leaves the last one in force."""
        if not self.path:
            return
        try:
            with open(self.path) as f:
                s = os.fstat(f.fileno())
                identity = (s.st_ino, s.st_mtime_ns, s.st_size)
                if identity == self.read:
                    return
                lease = json.load(f)
            until, epoch, n = lease.get("until"), int(lease["epoch"]), lease.get("n")
            if until and lease.get("at"):
                apart = self.apart(s.st_mtime - float(lease["at"]))
                until = float(until) + apart
            self.until = float(until) + float(lease.get("grace_s") or 0) if until else until
            self.newest, self.n, self.read = epoch, n, identity
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass

    def apart(self, file_system):
        """Return the seconds by which the clock of this machine is ahead of the scheduler's; file_system: that of the file system."""
        path = "%s.clock-%d" % (self.path, os.getpid())
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                seconds = file_system + time.time() - os.fstat(fd).st_mtime
            finally:
                os.close(fd)
                os.unlink(path)
        except OSError:
            return 0
        return seconds if abs(seconds) > 2 else 0  # less is the delay of the file system

    def fenced(self):
        self.poll()
        return self.newest is not None and self.epoch is not None and self.newest > self.epoch

    def leave_fenced(self):
        if self.reason != "fenced":
            self.reason = "fenced"
            self.report("stop", reason="fenced")
        raise SystemExit(EXIT)

    def over(self):
        """Return why the lease of this process is over, or an empty string."""
        now = time.monotonic()
        if now - self.polled >= POLL:
            self.polled = now
            if self.fenced():
                self.leave_fenced()
        if self.signalled:
            return self.signalled
        return "until" if self.until is not None and time.time() >= self.until else ""

    def boundary(self):
        """Return whether to stop before the next batch."""
        if self.reason:
            return True
        if self.world is None:
            self.rank, self.world = _rank()
            if self.world > 1 and self.path:
                self.agreement = _Agreement(self)
            self.report("start", world=self.world)
        reason = self.over()
        if self.world > 1 and self.path:
            reason = self.agreement.stop(reason)
        if reason:
            self.reason = reason
            self.report("stop", reason=reason)
            return True
        if time.monotonic() - self.reported >= REPORT:
            self.report("progress")
        return False

    def report(self, event, **fields):
        """Append one line. A full disk or a removed directory does not stop the training."""
        self.reported = now = time.monotonic()
        if not self.reports or getattr(self, "rank", 0) or os.getpid() != self.pid:
            return
        line = {"event": event, "time": round(time.time(), 3), "mono": round(now, 6), "pid": self.pid, "epoch": self.epoch,
                "n": self.n, "step": self.before + self.steps}
        line.update(fields)
        try:
            fd = os.open(self.reports, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, (json.dumps(line) + "\n").encode())
            finally:
                os.close(fd)
        except OSError:
            pass

    def timed(self, event, function, args, kwargs):
        begun = time.monotonic()
        result = function(*args, **kwargs)
        if event == "load" and result is not None and not self.steps:
            self.before = self.last_saved()
        if self.active:
            self.report(event, seconds=round(time.monotonic() - begun, 6))
        return result

    def last_saved(self):
        """Return the batches up to the last save of an earlier stretch; 0 if nothing was saved."""
        step = 0
        try:
            with open(self.reports) as f:
                for text in f:
                    try:
                        line = json.loads(text)
                        if line["event"] == "save":
                            step = int(line["step"])
                    except (ValueError, KeyError, TypeError):
                        pass
        except OSError:
            pass
        return step


class _Agreement:
    """The batches that all ranks may process: {"until_step": n, "reason": ...}, written by rank 0.

    A rank waits at step n until rank 0 permits more, or has given the reason for stopping there. No rank can therefore
    pass the step at which all stop, whatever their relative speed."""

    def __init__(self, job):
        self.job = job
        # Each start of the ranks has its own file: another epoch, port or restart of torchrun.
        group = "-".join(str(x) for x in (job.epoch, os.environ.get("MASTER_PORT", ""), os.environ.get("TORCHELASTIC_RESTART_COUNT", "")))
        self.path = os.path.join(os.path.dirname(os.path.abspath(job.path)), "agreed-%s.json" % group)
        self.limit, self.reason = 0, ""
        self.step, self.at = job.steps, time.monotonic()

    def stop(self, reason):
        """Return the reason to stop at this step; empty to continue."""
        if self.job.rank == 0:
            self.lead(reason)
        if self.job.rank and (self.limit <= self.job.steps or reason):
            self.follow()
        return self.reason if self.reason and self.job.steps >= self.limit else ""

    def lead(self, reason):
        """Permit a second of batches beyond the next two, or stop at the last batch that was permitted."""
        if self.reason:
            return
        steps, now = self.job.steps, time.monotonic()
        if reason:
            if self.publish(max(self.limit, steps), reason):
                self.reason = reason
        elif self.limit - steps < 2:
            done = steps - self.step
            seconds = (now - self.at) / done if done else AHEAD
            self.step, self.at = steps, now
            self.publish(steps + 2 + min(1000000, int(AHEAD / max(seconds, 1e-6))), "")

    def publish(self, limit, reason):
        """Write the agreement. If that fails, on a full disk, the last one remains in force until the next batch."""
        temporary = "%s.%d" % (self.path, self.job.pid)
        try:
            with open(temporary, "w") as f:
                json.dump({"until_step": limit, "reason": reason}, f)
            os.replace(temporary, self.path)
        except OSError:
            return False
        self.limit = limit
        return True

    def follow(self):
        """Wait until rank 0 permits the next batch or has stopped."""
        waited = time.monotonic()
        pause = 0.0005
        while True:
            try:
                with open(self.path) as f:
                    agreed = json.load(f)
                self.limit, self.reason = int(agreed["until_step"]), str(agreed["reason"])
            except (OSError, ValueError, KeyError, TypeError):
                pass
            if self.limit > self.job.steps or self.reason:
                return
            if self.job.fenced():
                self.job.leave_fenced()
            if time.monotonic() - waited > SILENCE:
                raise RuntimeError("agree on the last batch: no word of rank 0 for %d s in %s" % (SILENCE, self.path))
            time.sleep(pause)
            pause = min(2 * pause, 0.05)


_job = None


def _current():
    global _job
    if _job is None or _job.pid != os.getpid():  # a fork has its own steps
        _job = _Job()
    return _job


def _rank():
    """Return (rank, world size) of this process."""
    dist = sys.modules.get("torch.distributed")
    try:
        if dist is not None and dist.is_available() and dist.is_initialized():
            return dist.get_rank(), dist.get_world_size()
        return int(os.environ["RANK"]), max(1, int(os.environ["WORLD_SIZE"]))
    except Exception:
        return 0, 1


def _observe(job):
    """Count a batch for the observer of optimize, if it is in this process and no framework reports to it."""
    package = sys.modules.get("optimize_observer")
    if package is None or not package.directory:
        return
    try:
        from optimize_observer.core import observer

        t = observer.training
        if t is None:
            t = observer.begin("lease", object())
        if t.framework == "lease":
            t.step = job.before + job.steps
            observer.advance()
    except Exception:
        pass


class Lease:
    """Iterate over loader until the lease ends. Other attributes are those of loader."""

    def __init__(self, loader):
        self.loader = self._data = loader
        self._job = _current()

    def __iter__(self):
        job = self._job
        if not job.active:
            for batch in self._data:
                job.steps += 1
                yield batch
            return
        if job.boundary():
            return
        for batch in self._data:
            yield batch
            job.steps += 1
            _observe(job)
            if job.boundary():
                return

    def __len__(self):
        return len(self.loader)

    def __getattr__(self, name):
        if name == "loader":
            raise AttributeError(name)
        return getattr(self.loader, name)

    @property
    def steps(self):
        """Number of batches that this process has completed in all passes."""
        return self._job.steps

    @property
    def ended(self):
        """Whether the lease has ended: save and leave."""
        return bool(self._job.reason)

    def load(self, function, *args, **kwargs):
        """Return function(*args, **kwargs); its time is reported. A result other than None is the saved state of an
        earlier stretch, whose batches then count."""
        return self._job.timed("load", function, args, kwargs)

    def save(self, function, *args, **kwargs):
        """Return function(*args, **kwargs); its time is reported. A process that has lost its lease exits instead."""
        if self._job.active and self._job.fenced():
            self._job.leave_fenced()
        return self._job.timed("save", function, args, kwargs)

    def complete(self):
        """Report that the training has done all its work."""
        self._job.completed = True
        self._job.report("complete")

    def leave(self):
        """Exit with code 75, or 0 below torchrun, which would take another code for a failure of this rank."""
        self._job.report("leave")
        raise SystemExit(0 if "TORCHELASTIC_RUN_ID" in os.environ else EXIT)


class GavelIterator(Lease):
    """Lease with the interface of Gavel's iterator. verbose and write_on_close have no effect: reports are always
    written."""

    def __init__(self, data_loader, checkpoint_dir, load_checkpoint_func, save_checkpoint_func, synthetic_data=False,
                 write_on_close=True, verbose=True):
        if not hasattr(data_loader, "__iter__"):
            raise ValueError("iterate over training data: %s is not iterable" % type(data_loader).__name__)
        super().__init__(data_loader)
        if synthetic_data:
            self._data = _Repeated(data_loader)
        self._load, self._save = load_checkpoint_func, save_checkpoint_func
        self._pass = None
        self._saved = False  # after the end of the lease
        if self._job.active:
            atexit.register(self._leave)

    def _leave(self):
        """Exit with the code of leave if the script ends after it has saved at the end of its lease. The handlers of
        modules that were imported before are skipped, but for those that matter."""
        if not self._saved or self._job.completed or os.getpid() != self._job.pid or "TORCHELASTIC_RUN_ID" in os.environ:
            return
        for module, name in (("multiprocessing.util", "_exit_function"), ("logging", "shutdown")):
            try:
                getattr(sys.modules[module], name)()
            except Exception:
                pass
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        self._job.report("leave")
        os._exit(EXIT)

    def __next__(self):
        if self._pass is None:
            self._pass = iter(self)
        return next(self._pass)

    @property
    def done(self):
        """Whether the lease has ended or complete was called."""
        return self.ended or self._job.completed

    def load_checkpoint(self, *args, **kwargs):
        return self.load(self._load, *args, **kwargs)

    def save_checkpoint(self, *args, **kwargs):
        result = self.save(self._save, *args, **kwargs)
        self._saved = self.ended
        return result


class _Repeated:
    """A pass of synthetic data: the first batch of the loader, as often as the loader has batches."""

    def __init__(self, loader):
        self.loader = loader
        self.first = None

    def __iter__(self):
        if self.first is None:
            self.first = [next(iter(self.loader))]
        for _ in range(len(self.loader)):
            yield self.first[0]
