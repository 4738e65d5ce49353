"""Signals that ask the training to end: postponed while it writes a checkpoint, and SIGTERM of Slurm until it may save.

Handlers of the script stay in effect: only a signal that would end the process by default is postponed.
"""

import os
import signal
import threading
import time

ARRIVAL = 2.0  # seconds from the signal to the request; without one the signal has its usual effect


def install(pending):
    """Survive the SIGTERM with which Slurm announces the end of a job to all of its processes at once.

    The supervisor of the job receives the same signal and asks the training to save and stop, after which pending() is
    true. Without a handler the training would be dead by then. Only the first SIGTERM is survived, and only until the
    request has arrived. The training must be able to save on request, in one process.
    """
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
    defaults.append(handle)


defaults = [signal.SIG_DFL, signal.default_int_handler]  # handlers that end the process, and the one of install


def hold():
    """Postpone SIGTERM and SIGINT until release is called with the result; None in a thread, which sets no handlers."""
    if threading.current_thread() is not threading.main_thread():
        return None
    own, seen, before = os.getpid(), [], {}

    def note(number, frame):
        if os.getpid() == own:
            seen.append(number)
            return
        signal.signal(number, before[number])  # forked within the save
        os.kill(os.getpid(), number)

    for number in (signal.SIGTERM, signal.SIGINT):
        handler = signal.getsignal(number)
        if handler in defaults:
            before[number] = handler
            signal.signal(number, note)
            signal.siginterrupt(number, False)
    return note, seen, before


def release(held):
    """Restore the handlers before hold, and deliver what has arrived since."""
    if held is None:
        return
    note, seen, before = held
    for number, handler in before.items():
        if signal.getsignal(number) is note:
            signal.signal(number, handler)
    for number in before:  # SIGTERM first: SIGINT leaves this function
        if number in seen:
            os.kill(os.getpid(), number)
