"""How long a thread may keep the interpreter from the event loop: less while threads run Python of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import ClassVar, Final

_QUICK_SECONDS: Final = 0.0002


class Switching:
    """Python's own interval is 5 ms; while somebody holds it, it is a small part of that. One for the whole process."""

    _usual_seconds: ClassVar[float] = 0.0
    _held: ClassVar[int] = 0
    _lock: ClassVar[Lock] = Lock()

    @classmethod
    def hold(cls) -> None:
        """Before a thread begins."""
        with cls._lock:
            if not cls._held:
                cls._usual_seconds = sys.getswitchinterval()
            cls._held += 1
            sys.setswitchinterval(_QUICK_SECONDS)

    @classmethod
    def release(cls) -> None:
        """After it has ended; once for each hold."""
        with cls._lock:
            cls._held -= 1
            if not cls._held:
                sys.setswitchinterval(cls._usual_seconds)

    @classmethod
    @contextmanager
    def held(cls) -> Iterator[None]:
        """While the block waits for a thread."""
        cls.hold()
        try:
            yield
        finally:
            cls.release()
