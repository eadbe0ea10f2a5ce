"""The mode in which the event loop reads logs: what is in the pool or in the page cache, and nothing from the disk."""

from __future__ import annotations

from typing import Final

from tailrace.log.filesystem.port import File
from tailrace.log.read import CachedReads
from tailrace.records.batch import Bytes
from tailrace_broker.cold_reads.pool import HeldBlocks


class InMemory(CachedReads):
    """A read that finds what the pool holds of a file before it asks the page cache."""

    __slots__ = ()

    def read(self, file: File, length: int, position: int) -> Bytes | None:
        """As ReadMode.read."""
        held = file.held
        if isinstance(held, HeldBlocks):
            if (data := held.read(length, position)) is not None:
                return data
            # The kernel would begin to read it, too.
            if held.awaits(length, position):
                return None
        return file.pread_cached(length, position)

    def look(self, file: File, length: int, position: int) -> Bytes | None:
        """As ReadMode.look."""
        held = file.held
        if isinstance(held, HeldBlocks) and (seen := held.peek(length, position)) is not None:
            return seen
        return self.read(file, length, position)


IN_MEMORY: Final = InMemory()
