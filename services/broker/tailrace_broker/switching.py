"""How long a thread may keep the interpreter from the event loop: less while threads run Python of their own."""

from __future__ import annotations

import sys
from typing import Final

_QUICK_SECONDS: Final = 0.0005


class Switching:
    """Python's own interval is 5 ms; while somebody holds it, it is a tenth of that."""

    def __init__(self) -> None:
        self._usual_seconds = sys.getswitchinterval()
        self._held = 0

    def hold(self) -> None:
        """Before a thread begins."""
        self._held += 1
        sys.setswitchinterval(_QUICK_SECONDS)

    def release(self) -> None:
        """After it has ended; once for each hold."""
        self._held -= 1
        if not self._held:
            sys.setswitchinterval(self._usual_seconds)
