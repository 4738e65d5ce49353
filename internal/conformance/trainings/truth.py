"""Counts of a training, written by the training itself, for the suite to compare with what was reported of it.

Does nothing unless TRUTH_FILE names a file. One line a record: monotonic seconds, process, steps, epochs, samples,
all counted from the beginning of the training (a resumed process continues the counts of the checkpoint).
"""
import atexit
import os
import time

_path = os.environ.get("TRUTH_FILE")
_file = os.open(_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if _path else None
_pid, _last, _pending = os.getpid(), 0.0, None


def at(steps, epochs, samples=0):
    """Records the counts after a step or an epoch; at most 200 records a second are written, and the last one at exit."""
    global _last, _pending
    if _file is None or os.getpid() != _pid:
        return
    now = time.monotonic()
    _pending = b"%.6f %d %d %s %d\n" % (now, _pid, steps, repr(float(epochs)).encode(), samples)
    if now - _last >= 0.005:
        _last = now
        _flush()


def _flush():
    global _pending
    if _pending is not None and os.getpid() == _pid:
        os.write(_file, _pending)
        _pending = None


atexit.register(_flush)
