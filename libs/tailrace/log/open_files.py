"""How many segments may keep their file open: a broker of many partitions must stay below its descriptor limit."""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol
from weakref import ref

UNLIMITED: Final = 2**31


class Holder(Protocol):
    """A segment that opened its file and can open it again by its name."""

    def let_go(self) -> None:
        """Forgets the file; it is closed with its last reader, so a slice or a flush on its way keeps it."""
        ...


class OpenFiles:
    """The holders in the order in which they opened; beyond `limit` the one that opened first must let go.

    Not the one used last: that would cost every read and append a note, and opening again costs a few microseconds.
    """

    def __init__(self, limit: int = UNLIMITED) -> None:
        self.limit = limit
        self.let_go = 0  # how often the limit took a file from its holder
        self._holders: deque[ref[Holder]] = deque()

    def __len__(self) -> int:
        return len(self._holders)

    def add(self, holder: Holder) -> None:
        """Notes that holder has just opened its file."""
        self._holders.append(ref(holder))
        while len(self._holders) > self.limit:
            oldest = self._holders.popleft()()
            if oldest is not None and oldest is not holder:
                oldest.let_go()
                self.let_go += 1
