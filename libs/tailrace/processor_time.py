"""How long the processor has worked: on a busy machine much less than the time that went by."""

from __future__ import annotations

import threading
import time


def thread_time_ms() -> float:
    """For this thread."""
    return time.thread_time() * 1000


def monotonic_ms() -> float:
    """A bound that costs a tenth to read: processor time passes no faster."""
    return time.monotonic() * 1000


def process_time_s() -> float:
    """For all threads of this process."""
    return time.process_time()


def main_thread_time_s() -> float:
    """For the main thread, which runs the event loop of a role; from any thread."""
    ident = threading.main_thread().ident
    assert ident is not None  # it has started
    return time.clock_gettime(time.pthread_getcpuclockid(ident))
