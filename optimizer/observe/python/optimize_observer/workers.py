"""Change the number of data-loader workers of a running training, from its next pass on.

The number changes only between two passes, when a loader creates new workers: batch size, order and sampling are unaffected.
A change is refused if the workers are persistent, if the dataset is iterable, or if shared memory is short.
"""

import os
import sys
import weakref

from .core import clock, observer

MOST = 256
SHARED = 512 << 20  # free bytes of shared memory below which no workers are added
PREFETCH = 2  # batches per worker if the loader has no prefetch factor, as in torch

change = None  # the latest requested Change


class Change:
    def __init__(self, requests, request, loader, workers):
        self.requests, self.request, self.workers = requests, request, workers
        self.dataset = reference(loader.dataset)
        self.loader = weakref.ref(loader)

    def concerns(self, loader):
        """Report whether loader is that of the request, or a later one of the script over the same dataset."""
        return loader is self.loader() or self.loader() is None and self.dataset is not None and loader.dataset is self.dataset()

    def answer(self, ok, **fields):
        request, self.request = self.request, None
        if request is not None:
            self.requests.loading = None
            self.requests.answer(request, ok, **fields)


def reference(value):
    try:
        return weakref.ref(value)
    except TypeError:  # a list, for instance
        return None


def prepare(requests, request):
    """Store a request, which is answered when the next pass begins, or refuse it."""
    global change
    workers = int(request["workers"])
    use = observer.loader
    loader = None if use is None else use.passes.loader()
    reason = "no data loader was seen" if loader is None else refusal(loader, workers)
    if reason:
        return requests.answer(request, False, reason=reason)
    if requests.loading is not None:
        requests.answer(requests.loading, False, reason="replaced by another request")
    change = Change(requests, request, loader, workers)
    requests.loading = request


def refusal(loader, workers):
    """Return why a loader cannot have this number of workers, None if it can."""
    if not 0 <= workers <= MOST:
        return "%d workers" % workers
    if getattr(loader, "_dataset_kind", 0) == 1:
        return "an iterable dataset repeats its data in each worker"
    if getattr(loader, "persistent_workers", False):
        return "the loader keeps its workers from one pass to the next"
    if not workers and getattr(loader, "timeout", 0):
        return "the loader has a timeout, which needs workers"
    if workers > loader.num_workers:
        try:
            s = os.statvfs("/dev/shm")
        except OSError:
            return "no shared memory"
        if s.f_bavail * s.f_frsize < SHARED:
            return "too little shared memory"
    return None


def begin(loader):
    """Set the workers of a loader whose pass begins. Return the function to call afterwards with the exception or None; None if
    nothing was changed."""
    if change is None or loader.num_workers == change.workers or not change.concerns(loader) or refusal(loader, change.workers):
        if change is not None and change.request is not None and change.concerns(loader):
            change.answer(loader.num_workers == change.workers, workers=loader.num_workers, before=loader.num_workers)
        return None
    before, prefetch = loader.num_workers, loader.prefetch_factor
    generators = [g for g in (sys.modules["torch"].default_generator, getattr(loader, "generator", None)) if g is not None]
    states = [g.get_state() for g in generators]
    begun = clock()
    loader.num_workers = change.workers
    loader.prefetch_factor = (prefetch or PREFETCH) if change.workers else None

    def ended(failure):
        """Answer the request; after a failure to create the workers, restore the loader and the random generators."""
        global change
        made = change
        if failure is not None:
            loader.num_workers, loader.prefetch_factor, change = before, prefetch, None
            for g, state in zip(generators, states):
                g.set_state(state)
        made.answer(failure is None, workers=loader.num_workers, before=before, seconds=clock() - begun,
                    reason=None if failure is None else type(failure).__name__)

    return ended
