"""Start the observer in a Python process, then run the sitecustomize that this file shadows.

The agent places this directory first on PYTHONPATH. It is removed from sys.path and PYTHONPATH before the script starts;
optimize_observer.children adds it to the environment of Python children.
"""


def _start():
    import os
    import sys

    here = os.path.dirname(os.path.abspath(__file__))
    try:
        if os.environ.get("OPTIMIZE_OBSERVE_DIR") and os.environ.get("OPTIMIZE_OBSERVE") != "off":
            import optimize_observer

            optimize_observer.start(here)
    except Exception:
        pass  # a failure of the observer must not prevent the training
    sys.path[:] = [p for p in sys.path if p != here]
    rest = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p != here]
    if rest and rest != [""]:
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    else:
        os.environ.pop("PYTHONPATH", None)


def _hidden():
    """Run the sitecustomize that Python would have found without this one. Its exceptions propagate."""
    import importlib.machinery
    import importlib.util
    import sys

    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_start()
_hidden()
