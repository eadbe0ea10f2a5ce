"""Work without a garbage collection in the middle: hypothesis has a callback at each, which would count as a step."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """The collector rests meanwhile; what becomes garbage is collected afterwards."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
