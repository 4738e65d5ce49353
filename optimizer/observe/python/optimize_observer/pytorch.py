"""PyTorch: optimizer steps, DataLoader passes, torch.save, and the number of loader workers.

Counts a training that is not reported by a framework's adapter; otherwise only the optimizer and loader times are used.
An epoch is a pass over the loader whose batches precede the optimizer steps.
"""

import math
import operator
import sys
import weakref
from _thread import get_ident

import optimize_observer

from . import loops, workers
from .core import clock, observer, safely, timed_save, wrap

TAKEOVER = 50  # steps of other optimizers, without one of the leading optimizer, that replace the leading one
KNOWN = 8  # steps from which on the number of batches of a step is known
REUSE = 10  # steps per batch above which passes do not measure the training: it keeps a batch, such as the whole data set


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
        self.gone = NOTHING  # the work of deleted ones: some scripts create a loader for every epoch
        self.whole = False  # a pass was complete; until then, parts of passes count as well
        self.length = loops.Length()
        self.gap = 0.0  # epochs of a number of steps, before the first pass that is an epoch, less those by the passes

    def stepped(self, optimizer, seconds, framework="torch"):
        """Count a step of optimizer that took some seconds, None if a closure of the script was part of them."""
        if self.elsewhere(optimizer):
            return
        t = observer.training
        if t is not None and t.optimizing is not None:
            t.optimizing = None if seconds is None else t.optimizing + seconds
        if t is not None and t.step <= 1:
            weigh(t, optimizer)
        if t is None:
            if observer.searches:
                return
            self.begin(optimizer, framework)
            t = self.training
        elif t is not self.training:
            return
        use, leader = observer.loader, self.leader()
        if leader is optimizer:
            if self.others:
                self.others, self.round, self.pending = 0, set(), []
            steps = self.calls(first_parameter(optimizer))
            if not steps:
                return
        else:
            if id(optimizer) in self.round or not self.round:
                self.others, self.round = self.others + 1, set()
            self.round.add(id(optimizer))
            if use is not None and use not in self.pending:
                self.pending.append(use)
            if leader is not None and self.others < TAKEOVER:
                return
            steps = self.others
            self.succeed(optimizer)
        t.step += steps
        first = use is not None and not use.stepped
        if use is not None:
            self.follow(use)
            if use.batches == 1 == use.passes.begun and t.step <= REUSE:  # whether it keeps this batch is unknown
                observer.report_due = math.inf
            elif observer.report_due == math.inf:
                observer.report_due = 0.0
        if first and clock() >= self.length.due or t.step >= self.length.check:
            self.length.check = 2 * t.step
            self.length.take(lambda passes: self.before(use) if passes else t.step - steps, use and use.site, step=t.step)
        observer.advance(steps)

    def calls(self, parameter):
        """Count a call of the leading optimizer, for parameters of which this is the first one. Return the steps known by it: DeepSpeed
        calls the optimizer for each group of parameters, so that one for other parameters may belong to the last step."""
        if parameter not in self.parts:
            self.parts.append(parameter)
            return 0
        steps = 1 if parameter == self.parts[0] else 2  # the other parameters have replaced those of the last step
        self.parts = [parameter]
        return steps

    def elsewhere(self, optimizer):
        """Report whether optimizer belongs to another training, which takes place in another thread at the same time."""
        me, leader = get_ident(), self.leader()
        if me == self.thread or leader is optimizer:
            if self.seen:
                others = [observer.uses[t].passes for t in self.seen if t in observer.uses]
                self.loaders = [p for p in self.loaders if p not in others]
                observer.beside |= self.seen
                self.seen.clear()
        elif me not in observer.beside:
            self.seen.add(me)
        elif self.thread in sys._current_frames():
            return True
        else:
            observer.beside.discard(me)
        return False

    def lead(self, optimizer):
        """Make optimizer the leading one."""
        self.thread = get_ident()
        self.seen = set()  # other threads with steps since the last one of this thread
        self.leader = none if optimizer is None else weakref.ref(optimizer)
        self.parts = [first_parameter(optimizer)]  # the first parameter of each call that its last step consists of
        self.others = 0  # steps of other optimizers since its last step; those of several, each once, are one
        self.round = set()  # the other optimizers in the last one of these
        self.pending = []  # the Uses of loaders that they followed

    def succeed(self, optimizer):
        """Let optimizer take over, such as that of the next fold: its epochs follow those of the leading one so far."""
        self.gone = self.total()
        for p in self.loaders:
            p.before = p.total()
        for use in self.pending:
            self.follow(use)
        self.lead(optimizer)

    def follow(self, use):
        """Count a pass: an optimizer step has followed its last batch."""
        use.stepped = True
        if use.passes.use is not use:  # a later pass has begun
            use.passes.add(use)
        if use.passes is not self.passes:
            self.switch(use.passes)

    def begin(self, optimizer, framework):
        self.clear(optimizer)
        use = observer.loader
        self.training = observer.begin(framework, self)
        observer.loader = use

    def switch(self, passes):
        """Make passes those of the training loader."""
        self.passes = passes
        for old in [p for p in self.loaders if p.loader() is None]:
            self.loaders.remove(old)
            self.gone = plus(self.gone, old.since())
        if passes not in self.loaders:
            self.loaders.append(passes)

    def before(self, use):
        """Return the complete passes before that of use."""
        kept = (use.batches - 1) // use.length if use.length else 0  # by an iterator that is kept
        epochs, parts = minus(self.total(), use.work())[2:]
        epochs += kept if self.whole else kept + parts
        if self.length.counted and not self.gap:
            self.gap = (self.training.step - 1) / self.length.counted - epochs
        return round(epochs + self.gap, 6)

    def total(self):
        """Return the work in all passes: batches and samples of all loaders, epochs of the one with the most."""
        work = [p.since() for p in self.loaders] or [NOTHING]
        batches, samples, epochs, parts = zip(*work)
        return plus(self.gone, (sum(batches), sum(samples), max(epochs), max(parts)))

    def fill(self, t, world):
        """Derive epoch, samples and batch size of t from the passes over the training loaders."""
        passes = self.passes
        self.length.fill(t, passes)
        if passes is None:
            return
        world = passes.ranks(world)
        again = self.replayed(t, world)
        batches, samples, epochs, parts = plus(self.total(), again)
        if t.step > REUSE * batches:
            t.epoch = t.total_epochs = t.samples = t.data_count = None
            return
        own = self.length.counts(passes)  # epochs of the script's own length
        if not own:
            t.epoch = (epochs if self.whole else epochs + parts) + self.gap
            if not t.epoch and not passes.use.most() and (t.total_epochs or 1) <= 1:  # of a stream, maybe endless
                t.epoch = t.total_epochs = None
            self.bound(t, passes.use)
            if t.epoch and t.total_epochs and self.length.until and self.length.depth < 2 and len(self.loaders) == 1:
                self.shorten(t, batches, passes.use.most())
            if again[0]:
                self.extend(t, batches, passes.use.length)
        if passes.batch_size:
            t.samples = samples
            if len(self.loaders) == 1 and not own:
                t.data_count = passes.use.samples_of_all(world)
            if t.step and batches:
                t.batch_size = passes.batch_size * world * max(1, round(batches / t.step))

    def bound(self, t, use):
        """Let the total of t end where the loop over the batches of use does, if no other one is around it: before the end of a pass,
        or some time after it if the loop replays the pass."""
        _, _, limit, again = use.site or (None, 0, None, False)
        if t.total_epochs and self.length.passes and not self.length.within and use.length and (again or limit and limit < use.length):
            t.total_epochs = t.total_epochs - 1 + limit / use.length if limit else math.inf
            t.epoch = min(t.epoch, t.total_epochs)

    def shorten(self, t, batches, length):
        """Let the total of t end before that of the loops, if a counter of the script does: within the last pass, or earlier if it
        ends the loops around the passes as well. It is unknown for the first steps, because the number of batches of a step is, of
        which some loaders request one ahead."""
        if not length or t.step > self.length.until:
            return
        each = (batches - 1) // t.step if t.step < KNOWN else round(batches / t.step)
        end = self.length.until / math.ceil(length / max(1, each))
        if t.step < KNOWN and end < t.total_epochs:
            t.total_epochs = None
        elif end < t.total_epochs and (self.length.last or t.total_epochs - 1 < end):
            t.epoch, t.total_epochs = min(t.epoch, end), end

    def replayed(self, t, world):
        """Return the work of the steps after the end of the last pass, if more than KNOWN of them follow it without another one: its
        batches are taken from memory, as by itertools.cycle, which does not request them again."""
        use = self.passes.use
        steps = t.step - use.steps
        if not use.ended or not use.steps or not use.length or steps <= KNOWN:
            return NOTHING
        batches = self.total()[0]
        each = batches / use.steps
        if each > 1:
            each = round(each)
        batches = max(0, steps * each - max(0, batches - use.steps * each))  # less those that had been requested ahead
        size, most = (self.passes.batch_size or 0) * world, use.samples_of_all(world)
        return batches, batches * (most / use.most() if most else size), batches / use.length, 0.0

    def extend(self, t, batches, length):
        """Let the total of t, which replays a pass, follow from that number of steps by the loops around them."""
        if t.loop_steps and not t.ends_early:
            t.total_epochs = t.epoch + (t.loop_steps - t.step) * batches / t.step / length
        elif t.total_epochs and t.epoch > t.total_epochs:
            t.total_epochs = None


NOTHING = (0, 0, 0.0, 0.0)  # batches and samples of all ranks, epochs in complete passes, parts of incomplete ones


def plus(a, b):
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]


def minus(a, b):
    return a[0] - b[0], a[1] - b[1], a[2] - b[2], a[3] - b[3]


def none():
    """The reference to no object."""


def first_parameter(optimizer):
    """Return the id of the first parameter of an optimizer; None if it has none, or is not one of PyTorch."""
    try:
        for group in optimizer.param_groups:
            if group["params"]:
                return id(group["params"][0])
    except Exception:
        pass
    return None


def weigh(t, optimizer):
    """Add the gradients of an optimizer to those of t. Those of shards of the parameters are unknown."""
    if t.gradients is None or id(optimizer) in t.optimizers:
        return
    t.optimizers.add(id(optimizer))
    try:
        for group in optimizer.param_groups:
            for p in group["params"]:
                if type(p).__name__ not in ("Parameter", "Tensor"):
                    t.gradients = None
                    return
                if p.requires_grad:
                    t.gradients += p.numel() * p.element_size()
    except Exception:
        t.gradients = None


loop = Loop()


def install_optimizer(torch):
    module = sys.modules["torch.optim.optimizer"]
    pre = getattr(module, "register_optimizer_step_pre_hook", None)
    post = getattr(module, "register_optimizer_step_post_hook", None)
    if pre is None or post is None:
        return install_step(module.Optimizer)
    begun = {}  # thread -> start of its last step
    inner = {}  # class -> result of nests

    def before(optimizer, args, kwargs):
        begun[get_ident()] = clock()

    def after(optimizer, args, kwargs):
        try:
            cls = type(optimizer)
            if cls not in inner:
                inner[cls] = nests(cls)
            if inner[cls] and nested(optimizer):
                return
            loop.stepped(optimizer, None if closure(args, kwargs) else clock() - begun[get_ident()])
        except Exception as e:
            first.remove()
            second.remove()
            observer.failed("torch.optim.step", e)

    first, second = pre(before), post(after)


def closure(args, kwargs):
    """Report whether a step was given a closure of the script, which computes the loss."""
    return callable(args[1] if len(args) > 1 else kwargs.get("closure"))


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
                safely("torch.optim.step", loop.stepped, self, None if closure((self,) + args, kwargs) else clock() - begun)
            return result

        return observed_step

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
        self.batch_size = size_of(loader) or size_of(batches)
        self.workers = getattr(loader, "num_workers", None)
        self.iterable = iterable  # its length is not requested, because DataLoader remembers that
        owner = next(c for c in type(loader).__mro__ if "__iter__" in c.__dict__)
        self.repeats = not iterable and not owner.__module__.startswith("torch.utils.data.")  # may be by an iterator that it keeps
        self.stated = not all(type(s).__module__.startswith("torch.utils.data.") for s in (batches, getattr(loader, "sampler", None)) if s is not None)
        self.length = self.count = None  # batches of a pass, samples of its sampler
        self.sharded = False
        self.split = getattr(batches, "split_batches", False) is True  # accelerate divides each batch among all ranks
        self.begun = 0
        self.done = NOTHING  # in the passes before the current one
        self.before = NOTHING  # the part of the total that the Loop has counted already
        self.use = self.left = None
        self.ends = False  # a pass has ended
        self.limit = math.inf  # batches after which the script leaves each pass

    def begin(self):
        """Start a pass. Its length may differ from that of the last one, in a curriculum; that of a sampler of the script is
        requested only once, because the script may compute it at a cost."""
        use = self.use
        if use is not None and use.stepped:
            if not use.ended or use.added is NOTHING:  # otherwise it was added at its end
                self.add(use)
            self.alike(use)
        loader = self.loader()
        if not self.iterable and (self.use is None or not self.stated):
            sampler = getattr(loader, "sampler", None)
            self.length, self.count = quietly(len, loader), quietly(len, sampler)
            self.sharded = getattr(sampler, "num_replicas", 1) not in (None, 1)
        self.split = self.split or quietly(dispatched, loader) is True
        self.begun += 1
        self.use = Use(self)
        return self.use

    def ranks(self, world):
        """Return the number of ranks, of a number of world, for which there is one batch: one batch may be for all of them."""
        return 1 if self.split else world

    def alike(self, use):
        """Take two passes that one loop has left after the same number of batches for epochs of that length."""
        last, self.left = self.left, None if use.ended or not use.site or use.site[2] is None else use
        if last is None or self.left is None or (last.site, last.batches) != (use.site, use.batches):
            return
        loop.whole, self.limit, self.left = True, use.batches, None
        for work in (last.added, use.added):
            self.done = plus(minus(self.done, work), work[:2] + (1.0, 0.0))

    def add(self, use):
        """Count what use has done since it was last added. A pass may continue after a later one over the same loader, such
        as an evaluation on some of the training data."""
        work = use.work()
        self.done, use.added = plus(self.done, minus(work, use.added)), work

    def total(self):
        """Return the work in the passes, including the current one."""
        if self.use is not None and self.use.stepped:
            self.add(self.use)
        return self.done

    def since(self):
        """Return the part of total that the Loop has not counted yet."""
        return minus(self.total(), self.before)


class Use:
    """One pass over a loader, or several by an iterator that the loader keeps (InfiniteDataLoader of YOLOv5). It counts
    from the first optimizer step after one of its batches."""

    __slots__ = ("passes", "length", "count", "batches", "waited", "stepped", "ended", "steps", "workers", "added", "site", "graded")

    def __init__(self, passes):
        self.passes, self.workers, self.count = passes, passes.workers, passes.count
        length = min(passes.length or math.inf, passes.limit)
        self.length = None if length == math.inf else length
        self.batches, self.waited, self.stepped, self.ended = 0, 0.0, False, False
        self.steps = 0  # of the training, when it ended
        self.graded = False  # gradients were enabled at one of its batches
        self.site = None  # of the loop over its batches, after how many that ends, and whether it replays them
        self.added = NOTHING  # of its work, counted by passes

    def work(self):
        """Return batches, samples, and the share of the data, as an epoch or as the part of one.

        Parts are the epochs of a loop that stops passes early, each elsewhere. Before the first complete pass they are a preparation, such
        as a search of the learning rate or a check of one batch.
        """
        length = self.most()
        complete, rest = divmod(self.batches, length) if length else (0, self.batches)
        if self.ended or self.length and self.batches >= self.length:
            loop.whole = True
        if self.ended and complete < 2:  # not even two passes: the length was too small
            complete, rest = 1, 0
        elif complete and self.passes.ends and not self.passes.repeats:  # otherwise its sampler may have no end
            complete, rest = 1, 0
        share = complete + (rest / length if length else 0.0)
        world = self.passes.ranks(observer.rank()[1])
        size, most = (self.passes.batch_size or 0) * world, self.samples_of_all(world)
        samples = self.batches * size
        if most is not None:
            samples = min(samples, complete * most + min(rest * size, most))
        return (self.batches, samples, share, 0.0) if loop.whole else (self.batches, samples, 0.0, share)

    def beside(self, other):
        """Report whether the loop that requests its batches replays them until another pass ends, which it makes at the same time."""
        if not self.site or not self.site[3] or other is None or other.passes is self.passes or other.ended:
            return False
        return bool(other.site) and other.site[:2] == self.site[:2]

    def most(self):
        """Return the number of batches of a pass by the loop over them, which loops of the script are around."""
        limit = self.site[2] if self.site else None
        if not self.length:
            return limit or None
        return min(self.length, limit) if limit and loop.length.within and not loop.whole else self.length

    def samples_of_all(self, world):
        """Return the samples of a complete pass of all ranks, a number of world; None if unknown."""
        size = self.passes.batch_size
        if self.count is None or not self.length or not size:
            return None
        return min(self.count * (world if self.passes.sharded else 1), self.most() * size * world)


def quietly(function, *args):
    try:
        return function(*args)
    except Exception:
        return None


def dispatched(loader):
    """Report whether the pass that begins over loader is one of accelerate, in which the first rank distributes all batches."""
    module = sys.modules.get("accelerate.data_loader")
    if module is None or not module.GradientState._shared_state:  # which creating one would change
        return False
    active = module.GradientState().active_dataloader
    return isinstance(active, module.DataLoaderDispatcher) and getattr(active, "base_dataloader", active) is loader


def size_of(loader):
    """Return the batch size of a loader or batch sampler; None if it is unknown or no integer: samplers of scripts have lists, for instance."""
    return quietly(operator.index, getattr(loader, "batch_size", None))


def install_loader(torch):
    module = sys.modules["torch.utils.data.dataloader"]
    known = weakref.WeakKeyDictionary()  # DataLoader -> Passes
    gradients = getattr(torch, "is_grad_enabled", bool)

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

    def received(iterator, begun):
        use = iterator.__dict__.get("_optimize_use")
        if use is None:
            return
        if use.stepped and use.passes.repeats and use.length and use.batches % use.length == 0:
            observer.boundary()
        use.waited += clock() - begun
        use.batches += 1
        if use.site is None:
            use.site = safely("loops", loops.site, use)
        if gradients():
            use.graded = True
        elif observer.loader is not None and observer.loader.graded:  # an evaluation before the optimizer step
            return
        if not use.beside(observer.loader):
            observer.loader = use

    def ended(iterator):
        use = iterator.__dict__.get("_optimize_use")
        if use is None:
            return
        use.ended = use.passes.ends = True
        if use.length is None and use.stepped:
            use.length = use.passes.length = use.batches
        if use.stepped:
            use.steps = loop.training.step
            use.passes.add(use)
            observer.boundary()

    def make_next(original):
        def __next__(self):
            begun = clock()
            try:
                batch = original(self)
            except StopIteration:
                safely("torch.utils.data.next", ended, self)
                raise
            safely("torch.utils.data.next", received, self, begun)
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

NESTED = 8  # levels of containers that are looked at


def install_save(torch):
    def saved(args, kwargs):
        return args[0] if args else kwargs.get("obj")

    def path_of(result, args, kwargs):
        if results(saved(args, kwargs)):
            return None
        f = args[1] if len(args) > 1 else kwargs.get("f")
        return f if isinstance(f, (str, bytes)) or hasattr(f, "__fspath__") else getattr(f, "name", None)

    tensor, module = getattr(torch, "Tensor", ()), getattr(getattr(torch, "nn", None), "Module", ())

    def numbers(value, depth=0):
        """Whether a value is a number, None, or a container of these alone, but not the state of an optimizer."""
        if isinstance(value, (int, float, complex, type(None))) or type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
            return True
        if isinstance(value, dict) and "param_groups" not in value:
            value = value.values()
        elif not isinstance(value, (list, tuple, set)):
            return False
        return depth < NESTED and all(numbers(v, depth + 1) for v in value)

    def results(state):
        """Whether an object is what was measured: the losses of each epoch, predictions, arrays of an evaluation."""
        if isinstance(state, tensor) or type(state).__module__ == "numpy" or numbers(state) and state != {}:
            return True
        return (isinstance(state, dict) and any(type(v).__module__ == "numpy" for v in state.values())
                and not any(isinstance(v, (dict, tensor)) or hasattr(v, "state_dict") for v in state.values())
                and not any(word in str(k).lower() for k in state for word in ("epoch", "step", "iter", "model")))

    def weights(args, kwargs):
        state = saved(args, kwargs)
        return isinstance(state, module) or isinstance(state, dict) and len(state) > 0 and all(isinstance(v, tensor) for v in state.values())

    wrap(torch, "save", timed_save("torch.save", path_of, "torch.save", weights))
    serialization = sys.modules.get("torch.serialization")
    if serialization is not None:
        serialization.save = torch.save
