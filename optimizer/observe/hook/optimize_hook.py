"""Report a training to optimize from its own code, and show its runs in a notebook.

    import optimize_hook

    with optimize_hook.run(total=1000) as r:  # total: number of steps; or epochs=10
        for batch in batches:
            loss = train(batch)
            r.step(samples=len(batch), loss=loss)

Callbacks: KerasCallback(), HuggingFaceCallback(), LightningCallback(). In a notebook: optimize_hook.Run("latest").

Only Python's standard library is required. Outside of `optimize --train` all of it does nothing, and nothing here raises
an exception into the training. This file is written by `optimize python-module`; it contains the observer that optimize
adds to Python trainings, for processes that it does not reach (PYTHONPATH replaced, python -E).
"""

import contextlib
import functools
import html
import importlib.util
import json
import os
import subprocess
import sys
import time

__all__ = ["run", "step", "epoch", "checkpoint", "should_stop", "active", "KerasCallback", "HuggingFaceCallback", "LightningCallback", "Run"]
VERSION = "@VERSION@"

# Reporting


def _protocol():
    """Return the core module of the observer in this process, started if necessary; None outside of optimize."""
    package = sys.modules.get("optimize_observer")
    if package is None:
        directory = os.environ.get("OPTIMIZE_OBSERVE_DIR")
        if not directory or os.environ.get("OPTIMIZE_OBSERVE") == "off" or not os.path.isdir(directory):
            return None
        sys.meta_path.append(_Sources())
        import optimize_observer as package

        package.settings.update((k, v) for k, v in os.environ.items() if k.startswith("OPTIMIZE_OBSERVE"))
        package.directory = directory
        sys.meta_path.insert(0, package.Finder())
        for name in package.HOOKS:
            if name in sys.modules:
                package.hook(sys.modules[name])
    if not package.directory:
        return None
    import optimize_observer.core as core

    return core


class _Sources:
    """Finds the modules of the observer in this file."""

    def find_spec(self, name, path=None, target=None):
        source = _SOURCES.get(name)
        if source is None:
            return None
        return importlib.util.spec_from_loader(name, _Source(source), origin=__file__, is_package=name == "optimize_observer")


class _Source:
    def __init__(self, source):
        self.source = source

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(self.source, "<%s of optimize_hook>" % module.__name__, "exec"), module.__dict__)


def _guarded(method):
    """Make a method do nothing outside of optimize, and never raise."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        if self._core is not None:
            return self._core.safely("optimize_hook." + method.__name__, functools.partial(method, self, *args, **kwargs))

    return call


_current = []  # the runs that have been entered, innermost last


class run(contextlib.ContextDecorator):
    """A training: `with run(...) as r`, or a decorator of the function that trains.

    total: steps of the whole training; epochs: epochs of the whole training; batch_size: samples of a step over all ranks;
    data_count: samples of an epoch; start: steps already done, of a resumed training; save: a function that writes a
    checkpoint to the path that it receives (or to its own, if it returns one), which allows optimize to save and stop the
    training, see should_stop.
    """

    def __init__(self, total=None, epochs=None, batch_size=None, data_count=None, start=0, save=None):
        self._facts = dict(total_steps=total, total_epochs=epochs, batch_size=batch_size, data_count=data_count, step=start)
        self._save, self._stop, self._training, self._epochs = save, False, None, 0.0
        try:
            self._core = _protocol()
        except Exception:
            self._core = None  # an incompatible interpreter: the training is not reported

    def _recreate_cm(self):
        f = self._facts
        return type(self)(f["total_steps"], f["total_epochs"], f["batch_size"], f["data_count"], f["step"], self._save)

    def __enter__(self):
        _current.append(self)
        self._begin()
        return self

    def __exit__(self, *exc):
        if self in _current:
            _current.remove(self)
        self._end()
        return False

    @_guarded
    def _begin(self):
        observer = self._core.observer
        if observer.frameworks.get("optimize_hook") is None:
            observer.framework("optimize_hook")
        self._training = observer.begin("optimize_hook", _Saver(self) if self._save else None, **self._facts)

    @_guarded
    def _end(self):
        t, self._training = self._training, None
        if t is not None and t is self._core.observer.training:
            self._core.observer.finish()

    def _mine(self):
        """Return the training, None if a framework inside of it reports instead."""
        t = self._training
        return t if t is not None and t is self._core.observer.training else None

    def _values(self, t, values):
        for name, column in (("loss", "train_loss"), ("val_loss", "test_loss"), ("accuracy", "train_accuracy"), ("val_accuracy", "test_accuracy")):
            value = self._core.number(self._core.scalar(values.get(name)))
            if value is not None:
                t.losses[column] = value

    @_guarded
    def step(self, samples=None, steps=1, **values):
        """Report the end of a step, or of several. values: loss, val_loss, accuracy, val_accuracy."""
        t = self._mine()
        if t is None:
            return
        t.step += steps
        if samples is not None:
            t.samples = (t.samples or 0) + samples
            if self._facts["batch_size"] is None and steps:
                t.batch_size = max(t.batch_size or 0, samples / steps)  # the last batch may be smaller
        if t.data_count and t.samples is not None:
            t.epoch = max(self._epochs, min(t.samples / t.data_count, self._epochs + 1.0))
        self._values(t, values)
        self._core.observer.advance(steps)

    @_guarded
    def epoch(self, number=None, **values):
        """Report the end of an epoch: its number from 1, by default the next one."""
        t = self._mine()
        if t is not None:
            t.epoch = self._epochs = float(number) if number is not None else self._epochs + 1.0
            self._values(t, values)
            self._core.observer.boundary()

    @_guarded
    def checkpoint(self, path, seconds=0.0):
        """Report a checkpoint that the training has written, and how long that took."""
        if self._training is not None:
            self._core.observer.checkpoint(path, seconds, "optimize_hook")

    @property
    def should_stop(self):
        """True after optimize has asked for a checkpoint and the end of the training: leave the loop."""
        return self._stop


class _Saver:
    """Carries out the requests of optimize by the user's function."""

    def __init__(self, owner):
        self.owner = owner

    def save(self, path):
        if not path:
            import optimize_observer

            path = os.path.join(optimize_observer.directory, "optimize-step-%d" % self.owner._training.step)
        begun = time.monotonic()
        path = self.owner._save(path) or path
        self.owner.checkpoint(path, time.monotonic() - begun)
        return path

    def stop(self):
        self.owner._stop = True


def step(samples=None, steps=1, **values):
    """Report the end of a step of the innermost run."""
    if _current:
        _current[-1].step(samples, steps, **values)


def epoch(number=None, **values):
    """Report the end of an epoch of the innermost run."""
    if _current:
        _current[-1].epoch(number, **values)


def checkpoint(path, seconds=0.0):
    """Report a checkpoint of the innermost run."""
    if _current:
        _current[-1].checkpoint(path, seconds)


def should_stop():
    """Report whether the innermost run should leave its loop."""
    return bool(_current) and _current[-1].should_stop


def active():
    """Report whether this process reports to optimize."""
    try:
        return _protocol() is not None
    except Exception:
        return False


# Callbacks


def _callback(names, adapter, arguments, watched):
    """Return a callback of a framework: the observer's, or one that does nothing where the observer is already there."""
    base = None
    for name, attribute in names:
        module = sys.modules.get(name)
        base = getattr(module, attribute, None)
        if base is not None:
            package = name
            break
    if base is None:
        raise ImportError("import %s before its callback is made" % " or ".join(name for name, _ in names))
    try:
        core = _protocol()
        if core is not None:
            import optimize_observer

            hooked = [m for m in watched if m in optimize_observer.hooked and m not in core.observer.failures]
            if not hooked:
                module = importlib.import_module("optimize_observer." + adapter)
                return module.make_callback(base, *[package for _ in range(arguments)])()
    except Exception:
        pass
    return type("OptimizeCallback", (base,), {})()


def KerasCallback():
    """Return a callback for fit of Keras 3 or tf.keras."""
    return _callback([("keras.callbacks", "Callback"), ("keras.src.callbacks.callback", "Callback"), ("tensorflow.keras.callbacks", "Callback")], "keras", 0,
                     ["keras.src.callbacks.callback_list", "keras.src.callbacks", "keras.callbacks"])


def HuggingFaceCallback():
    """Return a callback for the Trainer of transformers, which TRL's trainers extend."""
    return _callback([("transformers", "TrainerCallback"), ("transformers.trainer_callback", "TrainerCallback")], "huggingface", 0, ["transformers.trainer"])


def LightningCallback():
    """Return a callback for the Trainer of Lightning, under both package names."""
    return _callback([("lightning.pytorch", "Callback"), ("pytorch_lightning", "Callback")], "lightning", 1,
                     ["lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer"])


# Display


class Run:
    """A run of optimize, as a notebook shows it: Run("latest"), Run("20261120-0930"). record is the content of run.json."""

    def __init__(self, id="latest", state_dir=None, program=None):
        self.id, self.state_dir, self.program = id, state_dir, program or os.environ.get("OPTIMIZE_PROGRAM") or "optimize"

    def report(self):
        """Return what `optimize report RUN --json` prints. Raises RuntimeError with the reason if it cannot be read."""
        command = [self.program, "report", str(self.id), "--json"]
        if self.state_dir:
            command += ["--state-dir", str(self.state_dir)]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as e:
            raise RuntimeError("run %s: %s" % (self.program, e)) from None
        if done.returncode:
            text = done.stderr.decode("utf-8", "replace").strip()
            try:
                text = json.loads(text)["error"]
            except (ValueError, KeyError, TypeError):
                pass
            raise RuntimeError(text or "%s failed with %d" % (self.program, done.returncode))
        return json.loads(done.stdout.decode("utf-8"))

    @property
    def record(self):
        """The record of the run (run.json), read again each time."""
        return self.report()["record"]

    def rows(self):
        """The lines of the display: (label, text)."""
        report = self.report()
        r = report["record"]
        out, training = r["outcome"], r["training"]
        done = out["epochs"] if out.get("epochs") is not None else out.get("steps")
        total, unit = training.get("total_units"), training.get("unit") or ""
        progress = "no data" if done is None else "%g%s %s" % (done, " of %g" % total if total else "", unit + "s" if unit else "")
        lines = [("Run", r["run_id"]), ("Training", " ".join(r["command"])), ("State", report["state"]), ("Progress", progress)]
        if r.get("plan"):
            a = r["plan"]["allocation"]
            lines.append(("Allocation", "%d GPU, %d CPU, %.3g GiB" % (a.get("gpus") or 0, a.get("cpus") or 0, a.get("memory_gib") or 0)))
        return lines + [(a["question"], a["answer"]) for a in report["answers"]]

    def __repr__(self):
        try:
            return "\n".join("%-14s %s" % line for line in self.rows())
        except RuntimeError as e:
            return "Run(%r): %s" % (self.id, e)

    def _repr_html_(self):
        try:
            rows = self.rows()
        except RuntimeError as e:
            return "<p>%s</p>" % html.escape(str(e))
        text = "".join('<tr><th scope="row" style="text-align:left">%s</th><td style="text-align:left">%s</td></tr>' % (html.escape(a), html.escape(b)) for a, b in rows)
        return "<table><caption>Run %s</caption>%s</table>" % (html.escape(rows[0][1]), text)


# The observer, by module.

_SOURCES = {}
