"""Python's garbage collections, held back while a large message lives.

A collection walks every object it has not walked yet, with the interpreter in its hands: for the rows of one large
request that is longer than others can be kept waiting. Rows are freed without it, as soon as nobody has them any more.
"""

from __future__ import annotations

import gc
from threading import Lock
from typing import Final

# So that a client with a large request after the other does not hold it back for ever.
MOST_SECONDS: Final = 60.0


class Collections:
    """One for the whole process: held while anybody holds it, but let go for once when that has become too long."""

    def __init__(self) -> None:
        self._held = 0
        self._since = 0.0
        self._usual = False
        self._lock = Lock()

    def hold(self, now_seconds: float) -> None:
        """now: by the event loop's own time."""
        with self._lock:
            if not self._held:
                self._usual, self._since = gc.isenabled(), now_seconds
                gc.disable()
            elif self._usual and now_seconds - self._since > MOST_SECONDS:
                self._since = now_seconds
                gc.collect(1)
            self._held += 1

    def release(self) -> None:
        """Once for each hold."""
        with self._lock:
            self._held -= 1
            if not self._held and self._usual:
                gc.enable()


COLLECTIONS: Final = Collections()
