"""Survive the SIGTERM with which Slurm announces the end of a job to all of its processes at once.

The supervisor of the job receives the same signal and asks the training to save and stop. Without a handler the training
would be dead by then. Only the first SIGTERM is survived, only until the request has arrived, and only by a training that
can save on request, in one process, whose script has not installed a handler of its own.
"""

import os
import signal
import threading
import time

ARRIVAL = 2.0  # seconds from the signal to the request; without one the signal has its usual effect


def install(pending):
    """Survive a SIGTERM while pending() returns whether the training is asked to save and stop."""
    if "SLURM_JOB_ID" not in os.environ or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    own, seen = os.getpid(), []

    def handle(number, frame):
        end = time.monotonic() + ARRIVAL
        if os.getpid() == own and not seen:
            seen.append(number)
            while time.monotonic() < end:
                if pending():
                    return
                time.sleep(0.02)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, handle)
