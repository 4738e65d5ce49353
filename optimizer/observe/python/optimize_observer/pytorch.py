"""PyTorch: optimizer steps, DataLoader passes, torch.save, and the number of loader workers.

Counts a training that is not reported by a framework's adapter; otherwise only the optimizer and loader times are used.
An epoch is a pass over the loader whose batches precede the optimizer steps.
"""

import sys
import weakref

import optimize_observer

from . import workers
from .core import clock, observer, safely, timed_save, wrap

TAKEOVER = 50  # steps of other optimizers, without one of the leading optimizer, that replace the leading one


def install(torch):
    observer.framework("torch")
    for hook, function in (("torch.optim", install_optimizer), ("torch.utils.data", install_loader), ("torch.save", install_save)):
        safely(hook, function, torch)


# Optimizer steps


class Loop:
    """A training loop in the script. A step is a step of the leading optimizer, initially the first one to step."""

    def __init__(self):
        self.training = None
        self.clear()

    def clear(self, leader=None):
        self.lead(leader)
        self.passes = None  # the Passes of the training loader
        self.loaders = []  # the Passes of all existing training loaders
        self.gone = [0, 0.0]  # batches and epochs of deleted ones: some scripts create a loader for every epoch

    def stepped(self, optimizer):
        t = observer.training
        if t is None:
            self.begin(optimizer)
            t = self.training
        elif t is not self.training:
            return
        use, leader = observer.loader, self.leader()
        if leader is optimizer:
            steps = 1
            if self.others:
                self.others, self.pending = 0, []
        else:
            self.others += 1
            if use is not None and use not in self.pending:
                self.pending.append(use)
            if leader is not None and self.others < TAKEOVER:
                return
            steps = self.others
            self.succeed(optimizer)
        t.step += steps
        if use is not None:
            self.follow(use)
        observer.advance(steps)

    def lead(self, optimizer):
        """Make optimizer the leading one."""
        self.leader = none if optimizer is None else weakref.ref(optimizer)
        self.others = 0  # steps of other optimizers since its last step
        self.pending = []  # the Uses of loaders that they followed

    def succeed(self, optimizer):
        """Let optimizer take over, such as that of the next fold: its epochs follow those of the leading one so far."""
        totals = [p.settle() for p in self.loaders]
        self.gone = [self.gone[0] + sum(b for b, _ in totals), self.gone[1] + max((e for _, e in totals), default=0)]
        for use in self.pending:
            self.follow(use)
        self.lead(optimizer)

    def follow(self, use):
        """Count a pass: an optimizer step has followed its last batch."""
        if not use.stepped:
            use.stepped = True
            if use.passes.use is not use:  # a later pass has begun
                use.passes.add(use)
        if use.passes is not self.passes:
            self.switch(use.passes)

    def begin(self, optimizer):
        self.clear(optimizer)
        use = observer.loader
        self.training = observer.begin("torch", self)
        observer.loader = use

    def switch(self, passes):
        """Make passes those of the training loader."""
        self.passes = passes
        for old in [p for p in self.loaders if p.loader() is None]:
            self.loaders.remove(old)
            self.gone = [a + b for a, b in zip(self.gone, old.total())]
        if passes not in self.loaders:
            self.loaders.append(passes)

    def fill(self, t, world):
        """Derive epoch, samples and batch size of t from the passes over the training loaders."""
        passes = self.passes
        if passes is None:
            return
        totals = [p.total() for p in self.loaders]
        batches = self.gone[0] + sum(b for b, _ in totals)
        t.epoch = self.gone[1] + max(e for _, e in totals)
        if t.step and passes.batch_size and batches:
            per_step = max(1, round(batches / t.step))
            t.batch_size = passes.batch_size * per_step * world
        if passes.batch_size:
            samples = batches * passes.batch_size
            if passes.count is not None and passes.length and len(self.loaders) == 1:
                t.data_count = min(passes.count * (world if passes.sharded else 1), passes.length * passes.batch_size * world)
                full = int(t.epoch)
                rest = (batches - full * passes.length) * passes.batch_size * world
                samples = full * t.data_count + min(max(0, rest), t.data_count)
            else:
                samples *= world
            t.samples = samples


def none():
    """The reference to no object."""


loop = Loop()


def install_optimizer(torch):
    module = sys.modules["torch.optim.optimizer"]
    pre = getattr(module, "register_optimizer_step_pre_hook", None)
    post = getattr(module, "register_optimizer_step_post_hook", None)
    if pre is None or post is None:
        return install_step(module.Optimizer)
    begun = [0.0]
    inner = {}  # class -> result of nests

    def before(optimizer, args, kwargs):
        begun[0] = clock()

    def after(optimizer, args, kwargs):
        try:
            cls = type(optimizer)
            if cls not in inner:
                inner[cls] = nests(cls)
            if inner[cls] and nested(optimizer):
                return
            t = observer.training
            if t is not None:
                t.optimizing += clock() - begun[0]
            loop.stepped(optimizer)
        except Exception as e:
            first.remove()
            second.remove()
            observer.failed("torch.optim.step", e)

    first, second = pre(before), post(after)


def nests(cls):
    """Report whether cls overrides the step of a base class other than Optimizer, and may therefore call it."""
    return sum("step" in c.__dict__ for c in cls.__mro__ if c.__module__ != "torch.optim.optimizer") > 1


def nested(optimizer):
    """Report whether the hooked step that has just ended was called from another hooked step of the same optimizer."""
    frame = sys._getframe(2)  # torch's wrapper of step
    code, frame = frame.f_code, frame.f_back
    for _ in range(6):
        if frame is None:
            return False
        if frame.f_code is code and frame.f_locals.get("self") is optimizer:
            return True
        frame = frame.f_back
    return False


def install_step(optimizer_class):
    """Wrap step of each optimizer class when its first instance is created, for versions without global hooks."""
    depth = [0]

    def observed(step):
        def observed_step(self, *args, **kwargs):
            begun = clock()
            depth[0] += 1
            try:
                result = step(self, *args, **kwargs)
            finally:
                depth[0] -= 1
            if depth[0] == 0:
                safely("torch.optim.step", note, self, begun)
            return result

        return observed_step

    def note(optimizer, begun):
        t = observer.training
        if t is not None:
            t.optimizing += clock() - begun
        loop.stepped(optimizer)

    def watch(cls):
        if not getattr(cls.step, "_optimize_observed", False):
            wrap(cls, "step", observed)
            cls.step._optimize_observed = True

    def make(original):
        def __init__(self, *args, **kwargs):
            original(self, *args, **kwargs)
            safely("torch.optim", watch, type(self))

        return __init__

    wrap(optimizer_class, "__init__", make)


# Loaders


class Passes:
    """The passes over one DataLoader."""

    def __init__(self, loader):
        batches = getattr(loader, "batch_sampler", None)
        iterable = type(batches).__name__ == "_InfiniteConstantSampler" or getattr(loader, "_dataset_kind", 0) == 1
        self.loader = weakref.ref(loader)
        self.batch_size = getattr(loader, "batch_size", None) or getattr(batches, "batch_size", None)
        self.workers = getattr(loader, "num_workers", None)
        self.length = self.count = None
        self.sharded = False
        if not iterable:  # len of an iterable dataset has a side effect: DataLoader remembers the call
            self.length = quietly(len, loader)
            sampler = getattr(loader, "sampler", None)
            self.count = quietly(len, sampler)
            self.sharded = getattr(sampler, "num_replicas", 1) not in (None, 1)
        self.batches = 0  # of the passes before the current one
        self.epochs = 0.0
        self.use = None

    def begin(self):
        """Start a pass."""
        self.close()
        self.use = Use(self)
        return self.use

    def close(self):
        """Count the current pass if optimizer steps followed its batches; an incomplete pass counts by its share."""
        use = self.use
        if use is not None and use.stepped:
            self.add(use)

    def add(self, use):
        self.batches += use.batches
        self.epochs += use.share()

    def settle(self):
        """Return total and count from here on."""
        total = self.total()
        self.batches -= total[0]
        self.epochs -= total[1]
        return total

    def total(self):
        """Return (batches, epochs), including the current pass."""
        use = self.use
        if use is None or not use.stepped:
            return self.batches, self.epochs
        return self.batches + use.batches, self.epochs + use.share()


class Use:
    """One pass over a loader."""

    __slots__ = ("passes", "batches", "waited", "stepped", "ended", "workers")

    def __init__(self, passes):
        self.passes, self.workers = passes, passes.workers
        self.batches, self.waited, self.stepped, self.ended = 0, 0.0, False, False

    def share(self):
        length = self.passes.length
        if self.ended or length and self.batches >= length:
            return 1.0
        return self.batches / length if length else 0.0


def quietly(function, *args):
    try:
        return function(*args)
    except Exception:
        return None


def install_loader(torch):
    module = sys.modules["torch.utils.data.dataloader"]
    known = weakref.WeakKeyDictionary()  # DataLoader -> Passes

    def begin(loader, iterator):
        passes = known.get(loader)
        if passes is None:
            passes = known[loader] = Passes(loader)
        passes.workers = getattr(loader, "num_workers", None)
        iterator._optimize_use = passes.begin()

    def make_iter(original):
        def __iter__(self):
            ended = safely("torch.utils.data.workers", workers.begin, self)
            try:
                iterator = original(self)
            except Exception as e:
                if ended is None:
                    raise
                safely("torch.utils.data.workers", ended, e)
                ended = None
                iterator = original(self)
            if ended is not None:
                safely("torch.utils.data.workers", ended, None)
            safely("torch.utils.data.DataLoader", begin, self, iterator)
            return iterator

        return __iter__

    def make_next(original):
        def __next__(self):
            begun = clock()
            try:
                batch = original(self)
            except StopIteration:
                use = self.__dict__.get("_optimize_use")
                if use is not None:
                    use.ended = True
                    if use.passes.length is None and use.stepped:
                        use.passes.length = use.batches
                    if use.stepped:
                        observer.boundary()
                raise
            use = self.__dict__.get("_optimize_use")
            if use is not None:
                use.waited += clock() - begun
                use.batches += 1
                observer.loader = use
            return batch

        return __next__

    wrap(module.DataLoader, "__iter__", make_iter)
    wrap(module._BaseDataLoaderIter, "__next__", make_next)
    if "next" in module._BaseDataLoaderIter.__dict__:
        module._BaseDataLoaderIter.next = module._BaseDataLoaderIter.__next__
    if optimize_observer.settings.get("OPTIMIZE_OBSERVE_WORKERS"):
        safely("torch.utils.data.workers", install_workers, module)


WORKERS_POSITION = 5  # of num_workers among the arguments after self


def install_workers(module):
    """Let OPTIMIZE_OBSERVE_WORKERS=n set num_workers of map-style loaders, with the related settings.

    The sampler, batch size, shuffling and generator never change. A loader over an iterable dataset, which repeats its data
    in every worker, is unchanged.
    """
    settings = optimize_observer.settings
    workers = int(settings["OPTIMIZE_OBSERVE_WORKERS"])
    extra = {}
    for name, key, kind in (("prefetch_factor", "PREFETCH", int), ("persistent_workers", "PERSISTENT", bool_of), ("pin_memory", "PIN_MEMORY", bool_of)):
        value = settings.get("OPTIMIZE_OBSERVE_" + key)
        if value:
            extra[name] = kind(value)
    if workers < 0:
        raise ValueError("OPTIMIZE_OBSERVE_WORKERS")

    def plan(dataset, args, kwargs):
        if isinstance(dataset, module.IterableDataset):
            return args, kwargs
        kwargs = dict(kwargs)
        if len(args) > WORKERS_POSITION:
            args = args[:WORKERS_POSITION] + (workers,) + args[WORKERS_POSITION + 1:]
        else:
            kwargs["num_workers"] = workers
        if workers:
            kwargs.update(extra)
        else:
            for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout"):
                kwargs.pop(name, None)
            if "pin_memory" in extra:
                kwargs["pin_memory"] = extra["pin_memory"]
        return args, kwargs

    def make(original):
        def __init__(self, *args, **kwargs):
            dataset = args[0] if args else kwargs.get("dataset")
            planned = safely("torch.utils.data.workers", plan, dataset, args, kwargs)
            if planned is not None:
                args, kwargs = planned
            original(self, *args, **kwargs)

        return __init__

    wrap(module.DataLoader, "__init__", make)


def bool_of(text):
    return text not in ("0", "false", "no")


# Saves


def install_save(torch):
    def path_of(result, args, kwargs):
        f = args[1] if len(args) > 1 else kwargs.get("f")
        return f if isinstance(f, (str, bytes)) or hasattr(f, "__fspath__") else getattr(f, "name", None)

    def weights(args, kwargs):
        state = args[0] if args else kwargs.get("obj")
        return isinstance(state, dict) and len(state) > 0 and all(isinstance(v, getattr(torch, "Tensor", ())) for v in state.values())

    wrap(torch, "save", timed_save("torch.save", path_of, "torch.save", weights))
    serialization = sys.modules.get("torch.serialization")
    if serialization is not None:
        serialization.save = torch.save
