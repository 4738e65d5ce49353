"""State of the training in this process, and its reports: one JSON object per line in <directory>/<pid>.jsonl.

Times are CLOCK_MONOTONIC in seconds (time.monotonic, "mono") and the wall clock ("time"). Adapters call begin, advance,
checkpoint and finish; no exception of this module reaches the script.
"""

import atexit
import json
import math
import os
import sys
import time
from _thread import get_ident

import optimize_observer
from optimize_observer import wrap  # noqa: F401 (for the adapters)

from .termination import hold, release

SCHEMA = 1
RECENT = 64  # number of steps for the reported median
FIRST_INTERVAL, LAST_INTERVAL = 0.5, 5.0  # seconds between progress lines, growing with the age of the process
POLL_INTERVAL = 0.5  # seconds between checks of the request file
BURST = 20  # size of the token bucket for checkpoint lines, refilled at two per second

REPEATED = {"transformers", "lightning.pytorch", "pytorch_lightning", "keras", "fastai", "ultralytics", "xgboost", "lightgbm", "catboost",
            "stable-baselines3"}  # make a training by one call

clock = time.monotonic


class Training:
    """The state of one training, set by its adapter. Absent numbers are None."""

    def __init__(self, number, framework, adapter):
        self.number, self.framework, self.adapter = number, framework, adapter
        self.unit = "step"
        self.step = 0
        self.epoch = self.total_steps = self.total_epochs = None
        self.loop_steps = None  # total by the loops around the steps, whose variables are not epochs
        self.ends_early = None  # whether one of these loops may end early
        self.left = None  # number of trainings from this one on, by the loops around them; -1 if there are several, and unknown
        self.loops = None  # number of loops around the passes that total_epochs follows from
        self.samples = None  # processed so far by all ranks
        self.batch_size = None  # samples of one step over all ranks
        self.data_count = None  # samples of one epoch
        self.losses = {}  # train_loss, test_loss, train_accuracy, test_accuracy
        self.thread = get_ident()
        self.recent = []  # seconds of the last steps
        self.at = 0
        self.last = 0.0  # end of the last step
        self.reached = None  # time at which the counts were reached, if not the end of the last step
        self.closing = None  # expected seconds of the framework's work after the last epoch, if the adapter knows it
        self.completed = 0  # epochs that were reported as complete
        self.completed_at = None  # time of the report, until the next step
        self.between = []  # seconds of work between the last epochs and the next step, such as evaluation and saving
        self.stepping = self.waiting = self.optimizing = self.saving = 0.0  # seconds since the end of the first step
        self.counted = 0  # number of steps in stepping
        self.gradients = 0  # bytes of gradients of one step, None if unknown
        self.optimizers = set()  # ids of the optimizers that these belong to
        self.workers = None  # of the loader of the last step
        self.stream = False  # whether that is over an iterable dataset

    def median(self):
        return middle(self.recent)


class Observer:
    """The observer of this process."""

    def __init__(self):
        self.failures = set()
        self.frameworks = {}  # names, in order; copies of optimize_hook.py look them up
        self.reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.reset)
        atexit.register(self.end, "exit")
        self.wrap_exit()

    def reset(self):
        """Discard the state of the parent process, after a fork."""
        self.born = clock()
        self.pid = os.getpid()
        self.path = os.path.join(optimize_observer.directory, "%d.jsonl" % self.pid)
        self.started = self.ended = False
        self.training = None
        self.trainings = 0
        self.group = 0, 1  # rank and world size of the training
        self.beside = set()  # other threads that train at the same time
        self.loader = None
        self.saving = 0  # nesting depth of saves in progress
        self.searches = 0  # of a framework's tuner, in progress
        self.tokens, self.refilled = float(BURST), self.born
        self.late = None  # the last checkpoint, if there was no token for its line
        self.due = self.report_due = 0.0
        self.requests = None
        self.trial = None
        self.repeats = None  # the Length of trainings that a framework makes

    @property
    def loader(self):
        """The DataLoader pass of the last batch, in this thread if several train. Otherwise another one may load the batches."""
        return self.uses.get(get_ident()) if self.beside else self.use

    @loader.setter
    def loader(self, use):
        self.use = use
        if use is None:
            self.uses = {}
        else:
            self.uses[get_ident()] = use

    def wrap_exit(self):
        def make(leave):
            def _exit(status):
                self.end("_exit")
                leave(status)

            return _exit

        wrap(os, "_exit", make)

    # Lines

    def write(self, event, **fields):
        """Append one line. The file is opened for each line, so that no descriptor stays open in the script's process."""
        if not self.started and event != "start":
            self.start()
        line = {"event": event, "mono": round(clock(), 6), "time": round(time.time(), 3), "pid": self.pid}
        line.update((k, v) for k, v in fields.items() if v is not None)
        try:
            text = json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n"
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(fd, text.encode())
            finally:
                os.close(fd)
        except (OSError, ValueError, TypeError):
            pass  # a full disk or a removed directory must not stop the training

    def start(self):
        self.started = True
        rank, world = self.rank()
        boot = None
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
                boot = f.read(36)
        except OSError:
            pass
        self.write("start", schema=SCHEMA, observer=1, python="%d.%d.%d" % sys.version_info[:3],
                   boot=boot, rank=rank, world=world, cpus=cpus(), frameworks=list(self.frameworks))

    def framework(self, name):
        """Record a hooked framework. Helper processes start reporting only when they train."""
        if name in self.frameworks:
            return
        self.frameworks[name] = True
        helper = any("multiprocessing" in a or "torch._inductor" in a for a in getattr(sys, "orig_argv", sys.argv)[1:4])
        if self.started:
            self.write("framework", framework=name)
        elif not helper and not multiprocessing_child():
            self.start()

    def failed(self, hook, error):
        """Report the failure of a hook once. The message is included only for exceptions that name code, not data."""
        if hook in self.failures:
            return
        self.failures.add(hook)
        reason = type(error).__name__
        if isinstance(error, (AttributeError, ImportError, TypeError, NotImplementedError)):
            reason += ": " + " ".join(str(error).split())[:200]
        where = error.__traceback__
        while where is not None and where.tb_next is not None and "optimize_observer" in where.tb_next.tb_frame.f_code.co_filename:
            where = where.tb_next
        if where is not None:
            reason += " (%s:%d)" % (os.path.basename(where.tb_frame.f_code.co_filename), where.tb_lineno)
        try:
            self.write("failure", hook=hook, reason=reason)
        except Exception:
            pass

    # Trainings

    def begin(self, framework, adapter=None, **facts):
        """Start a training; facts sets attributes of Training."""
        other = self.training
        if other is not None and other.framework in REPEATED and other.thread != get_ident() and other.thread in sys._current_frames():
            self.beside.add(other.thread)  # of which no more steps are counted
        self.trainings += 1
        self.group = 0, 1
        t = Training(self.trainings, framework, adapter)
        t.losses = {}
        for name, value in facts.items():
            setattr(t, name, value)
        self.training = t
        self.loader = None
        if framework in REPEATED:
            self.repeated(t)
        self.due = self.report_due = 0.0
        if self.requests is None:
            from .requests import Requests

            try:
                self.requests = Requests(self)
            except OSError as e:
                self.failed("requests", e)
        self.write("training", **self.facts(t))
        return t

    def busy(self):
        """Report whether a training is in progress. One of another thread that begins meanwhile is not counted."""
        t = self.training
        if t is not None and t.thread != get_ident():
            self.beside.add(get_ident())
        return t is not None

    def repeated(self, t):
        """Find how many trainings follow by the loops around the call that trains."""
        from . import loops

        length = self.repeats = self.repeats or loops.Length()
        length.take(lambda _: t.number - 1, None, True, loops.CALLERS + (t.framework.partition(".")[0].replace("-", "_"), "trl", "sb3_contrib"))
        if length.several:
            t.left = -1
        elif length.known and (length.depth or t.number > 1):
            t.left = length.total - t.number + 1

    def facts(self, t):
        rank, world = self.rank()
        can_save = bool(getattr(t.adapter, "save", None)) and (one_machine(world) or group_store() is not None)
        return dict(training=t.number, framework=t.framework, unit=t.unit, rank=rank, world=world, total_steps=whole(t.total_steps),
                    total_epochs=number(t.total_epochs), batch_size=whole(t.batch_size), data_count=whole(t.data_count),
                    can_save=can_save, can_stop=can_save and bool(getattr(t.adapter, "stop", None)),
                    can_set_threads=thread_count() is not None and not compiled() and getattr(t.adapter, "own_threads", False) is False)

    def advance(self, steps=1, requests=True):
        """Record the end of a step, or of several steps made together, and report if due. Requests are served only in the
        training's own thread."""
        t = self.training
        now = clock()
        last, t.last = t.last, now
        if last:
            seconds = now - last
            t.stepping += seconds
            t.counted += steps
            if steps != 1:
                seconds /= steps or 1
            recent = t.recent
            if len(recent) < RECENT:
                recent.append(seconds)
            else:
                recent[t.at & 63] = seconds
                t.at += 1
            use = self.loader
            if t.completed_at is not None:
                waited = use.waited if use is not None else 0.0
                t.between = t.between[-7:] + [max(0.0, now - t.completed_at - waited - t.median())]
                t.completed_at = None
            if use is not None:
                t.waiting += use.waited
                t.workers, t.stream = use.workers, use.passes.iterable
                use.waited = 0.0
            if self.trial is not None:
                self.trial.step(seconds, now)
        if now >= self.due:
            self.tick(now, requests)

    def tick(self, now, requests=True):
        """Check for a request and write a progress line, each at its own interval."""
        self.due = now + POLL_INTERVAL
        if now >= self.report_due:
            self.progress(now)
        if requests and self.requests is not None:
            try:
                self.requests.poll()
            except Exception as e:
                self.requests = None
                self.failed("requests", e)

    def pause(self):
        """Report if due, without the end of a step."""
        now = clock()
        if now >= self.due and self.training is not None:
            self.tick(now)

    def boundary(self):
        """Report the end of an epoch, after which the next step may take long."""
        now = clock()
        if self.training is None:
            return
        due = self.report_due
        if now >= self.due:
            self.tick(now)
        if self.report_due == due:
            self.announce()

    def announce(self):
        """Report the progress before what may take long, or may be the last thing that the training does."""
        now = clock()
        if self.training is not None and self.token(now, BURST / 2):
            self.progress(now)

    def token(self, now, spare=0):
        """Take a token for an unscheduled line, leaving at least spare tokens; return whether one was available."""
        self.tokens = min(BURST, self.tokens + 2 * (now - self.refilled))
        self.refilled = now
        if self.tokens < 1 + spare:
            return False
        self.tokens -= 1
        return True

    def progress(self, now):
        rank, world = self.rank()
        interval = LAST_INTERVAL if rank else min(LAST_INTERVAL, max(FIRST_INTERVAL, (now - self.born) / 1200))
        self.report_due = now + interval
        self.due = min(self.due, self.report_due)
        t = self.training
        self.fill(t, world)
        if t.epoch and t.epoch >= t.completed + 1 and t.epoch == int(t.epoch):
            t.completed, t.completed_at = t.epoch, now
        closing = middle(t.between) if t.closing is None else t.closing
        losses = {k: number(v) for k, v in t.losses.items()}
        self.write("progress", training=t.number, framework=t.framework, rank=rank, world=world, step=whole(t.step),
                   total_steps=whole(t.total_steps), epoch=number(t.epoch), total_epochs=number(t.total_epochs),
                   loop_steps=whole(t.loop_steps), ends_early=t.ends_early, loops=t.loops, trainings_left=t.left, samples=whole(t.samples), batch_size=whole(t.batch_size), data_count=whole(t.data_count),
                   step_seconds=number(t.median()), steps_timed=t.counted, stepping=number(t.stepping), waiting=number(t.waiting),
                   reached=round(t.reached or t.last, 6) or None, optimizing=number(t.optimizing), saving=number(t.saving),
                   closing=number(closing), gradient_bytes=t.gradients or None, beside=len(self.beside) or None, threads=thread_count(now), workers=t.workers, stream=t.stream or None, gpu_memory_used_gb=gpu_memory(now), **losses)
        late, self.late = self.late, None
        if late is not None:
            self.write("checkpoint", **late)

    def fill(self, t, world):
        """Let the adapter of a training update its counts."""
        fill = getattr(t.adapter, "fill", None)
        if fill is not None:
            try:
                fill(t, world)
            except Exception as e:
                t.adapter = None
                self.failed(t.framework + ".fill", e)

    def finish(self):
        """Report the end of the training; the process may start another one."""
        t = self.training
        if t is None:
            return
        self.progress(clock())
        self.write("finished", training=t.number)
        if self.requests is not None:
            self.requests.abandon("the training has finished")
        self.trial = self.training = self.loader = None
        if self.beside:
            self.beside.intersection_update(sys._current_frames())

    def end(self, how):
        """Report the last state: at exit, os._exit and exec."""
        try:
            if not self.started or self.ended or self.pid != os.getpid():
                return
            if self.training is not None:
                self.progress(clock())
            self.ended = True
            self.write("end", how=how)
        except Exception:
            pass

    def checkpoint(self, path, seconds, kind, weights=False):
        """Report a file or directory to which the training wrote its state, or its weights alone."""
        now = clock()
        t = self.training
        if t is not None:
            t.saving += seconds
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        rank, world = self.rank()
        due = self.token(now)
        if t is not None and due:
            self.progress(now)  # a training that is killed has done at least the work in its last checkpoint
        elif t is not None:
            self.fill(t, world)  # epochs may have ended since the last report
        saved = dict(path=os.path.abspath(os.fsdecode(path))[:4096], seconds=round(seconds, 4), kind=kind, rank=rank,
                     training=t.number if t else None, step=whole(t.step) if t else None, epoch=number(t.epoch) if t else None, weights=weights or None)
        if due:
            self.write("checkpoint", **saved)
        elif t is not None:  # of a file that is replaced several times a second, the newest state counts
            self.late = dict(saved, mono=round(now, 6), time=round(time.time(), 3))

    def rank(self):
        """Return (rank, world size) of this process in the job: (0, 1) if it is not distributed. A script may leave its
        process group before the last report."""
        dist = sys.modules.get("torch.distributed")
        try:
            if dist is not None and dist.is_available() and dist.is_initialized():
                self.group = dist.get_rank(), dist.get_world_size()
            elif "RANK" in os.environ:
                return int(os.environ["RANK"]), max(1, int(os.environ["WORLD_SIZE"]))
        except Exception:
            pass
        return self.group


def middle(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else None


def one_machine(world):
    """Report whether all ranks of the job are on this machine."""
    try:
        return world == 1 or int(os.environ.get("LOCAL_WORLD_SIZE", world)) == world
    except ValueError:
        return False


def group_store():
    """Return the key-value store of the default process group, which all its ranks reach; None without one."""
    try:
        return sys.modules["torch.distributed.distributed_c10d"]._get_default_store()
    except Exception:
        return None


def multiprocessing_child():
    mp = sys.modules.get("multiprocessing.process")
    return mp is not None and mp.parent_process() is not None


def cpus():
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count()


_pools = [0.0, None]


def thread_count(now=None):
    """Return the number of threads in the numeric pools of this process; None if no pool is known. threadpoolctl takes milliseconds:
    with the present time, its result may be ten seconds old."""
    torch = sys.modules.get("torch")
    try:
        return torch.get_num_threads()
    except Exception:
        pass
    pools = sys.modules.get("threadpoolctl")
    if pools is None:
        return None
    if now is None or now - _pools[0] >= 10:
        _pools[0] = clock()
        try:
            _pools[1] = max(p["num_threads"] for p in pools.threadpool_info())
        except Exception:
            _pools[1] = None
    return _pools[1]


def compiled():
    """Report whether torch.compile has compiled anything in this process. It is valid for the present number of threads alone, and
    compiled again at another one."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return bool(counters.get("stats", {}).get("unique_graphs"))


_memory = [0.0, None]


def gpu_memory(now):
    """Return the peak CUDA memory of this process in GB, read every ten seconds; None without a CUDA context."""
    if now - _memory[0] < 10:
        return _memory[1]
    _memory[0] = now
    cuda = sys.modules.get("torch.cuda")
    try:
        if cuda is not None and cuda.is_initialized():
            _memory[1] = round(sum(cuda.max_memory_allocated(d) for d in range(cuda.device_count())) / 1e9, 3)
    except Exception:
        pass
    return _memory[1]


def number(v):
    """Return v as a finite float with nine significant digits, otherwise None."""
    try:
        v = float(v)
    except (TypeError, ValueError):
        return None
    return float("%.9g" % v) if math.isfinite(v) else None


def whole(v):
    v = number(v)
    return None if v is None or v < 0 else int(v)


def scalar(v):
    """Return the value of a number or a one-element CPU tensor; None otherwise, which avoids a GPU synchronisation."""
    if isinstance(v, (int, float)):
        return v
    device = getattr(v, "device", None)
    if device is not None and getattr(device, "type", device) != "cpu":
        return None
    item = getattr(v, "item", None)
    if item is None or getattr(v, "size", None) is None:
        return None
    try:
        return item()
    except (TypeError, ValueError, RuntimeError):
        return None


def safely(hook, function, *args):
    """Call function unless the hook has failed before; return None in that case and if it fails."""
    if hook in observer.failures:
        return None
    try:
        return function(*args)
    except Exception as e:
        observer.failed(hook, e)
        return None


def timed_save(hook, path_of, kind, weights=lambda args, kwargs: False):
    """Return a make for wrap that reports the checkpoint at path_of(result, args, kwargs) with the seconds it took.

    weights(args, kwargs) is true if it contains no progress, only weights. Signals to end are postponed until it is complete.
    """

    def make(original):
        def save(*args, **kwargs):
            observer.saving += 1
            held = None
            if observer.saving == 1:
                safely("progress", observer.announce)
                held = safely("termination", hold)
            begun = clock()
            try:
                try:
                    result = original(*args, **kwargs)
                finally:
                    observer.saving -= 1
                if observer.saving == 0:
                    seconds = clock() - begun
                    safely(hook, lambda: observer.checkpoint(path_of(result, args, kwargs), seconds, kind, weights(args, kwargs)))
                return result
            finally:
                release(held)

        return save

    return make


observer = Observer()
