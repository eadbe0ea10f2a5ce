"""Who waits at one partition for an offset to be reached, in the order of the offsets."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

_FEW: Final = 256  # done or not, so many cost nobody anything


class AckQueue(deque[tuple[int, Any]]):
    """(offset needed, (who waits, for what)); line_up adds, settle and refuse take.

    Who ran out of time leaves with those before him, or is swept out: behind one that waits long for an offset that
    does not come there may be any number of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sweep_at = _FEW

    def line_up(self, needed: int, waiter: tuple[Any, Any]) -> None:
        """Puts a waiter behind the others: he also needs what they do."""
        self.append((max(needed, self[-1][0]) if self else needed, waiter))
        if len(self) >= self._sweep_at:
            left = [entry for entry in self if not entry[1][0].done]
            self.clear()
            self.extend(left)
            self._sweep_at = 2 * len(left) + _FEW
