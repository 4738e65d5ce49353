"""Start the observer in a Python process, then run the sitecustomize that this file shadows.

The agent places this directory first on PYTHONPATH. It is removed from sys.path and PYTHONPATH before the script starts;
optimize_observer.children adds it to the environment of Python children.
"""


def _start():
    import os
    import sys

    here = os.path.dirname(os.path.abspath(__file__))
    try:
        if sys.version_info >= (3, 6) and os.environ.get("OPTIMIZE_OBSERVE_DIR") and os.environ.get("OPTIMIZE_OBSERVE") != "off":
            import optimize_observer

            optimize_observer.start(here)
    except Exception:
        pass  # a failure of the observer must not prevent the training
    sys.path[:] = [p for p in sys.path if p != here]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    rest = [p for p in paths if p != here]
    if rest and rest != [""] or paths.count(here) > 1:  # twice: the variable was set and empty
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    else:
        os.environ.pop("PYTHONPATH", None)


def _hidden():
    """Run the sitecustomize that Python would have found without this one. Its exceptions propagate, as does that of its absence."""
    import sys

    sys.modules.pop(__name__, None)
    import sitecustomize  # noqa: F401


_start()
_hidden()
