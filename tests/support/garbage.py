"""Sockets that the clients under test leave to the garbage collector: theirs to close, not ours to show."""

import gc
import warnings

TIMES = 5  # as pytest does: what one collection frees may hold more


def collect_quietly() -> None:
    """Frees them before pytest does at the end of a run: no test's mark covers them there, and the run would fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(TIMES):
            gc.collect()
