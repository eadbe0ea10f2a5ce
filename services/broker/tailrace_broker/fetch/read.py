"""Reads: what one look of a Fetch finds of its partitions' records, and what the disk has to bring first.

    find   whole batches from an offset on, up to where the reader may see the log, as a slice of a file
    load   the records of such a slice as they are sent: a copy, or the slice for the connection to send

Nothing here waits. What would have to wait for the disk is noted in `missing`; delayed.py has that brought
(cold_reads/), and then the fetch looks at all of its partitions again. Its `last` look waits all the same: memory has
lost what the disk brought too often, so it reads a little from the disk itself.
"""

from __future__ import annotations

import errno

from tailrace.log.read import WAIT, Needs, NeedsPages, Records
from tailrace.wire.pieces import Piece
from tailrace_broker.cold_reads.memory import IN_MEMORY
from tailrace_broker.cold_reads.readers import loaded
from tailrace_broker.cold_reads.reads import LAST_BYTES
from tailrace_broker.partitions.partition import FetchIsolation, Partition

_NOTHING = b""


class Reads:
    """One look: how much of max_bytes is left, what was found within it, and what is missing."""

    __slots__ = ("_failed", "_state", "_takes_files", "found_bytes", "last", "left_bytes", "min_one", "missing")

    def __init__(
        self, max_bytes: int, takes_files: bool, state: dict[str, object], last: bool = False, failed: bool = False
    ) -> None:
        """takes_files, state: of the connection. failed: the disk could not bring what was missing in the last look."""
        self.left_bytes = max(0, min(max_bytes, LAST_BYTES) if last else max_bytes)
        self.min_one = True  # the first batch of all is found, however large it is
        self.found_bytes = 0
        self.missing: list[Needs] = []
        self.last = last
        self._takes_files = takes_files
        self._state = state
        self._failed = failed

    def find(self, partition: Partition, offset: int, max_bytes: int, isolation: FetchIsolation) -> Records | None:
        """The partition's batches, None where they are missing. Raises ApiError as Partition.read, and OSError."""
        mode = WAIT if self.last else IN_MEMORY
        found = partition.read(offset, max_bytes, isolation, min_one=self.min_one, mode=mode)
        if not isinstance(found, Records):
            self._note(found)
            if isinstance(found, NeedsPages):
                self.left_bytes = max(0, self.left_bytes - found.slice.length)
            return None
        if length := found.length:
            self.min_one = False
            self.found_bytes += length
            self.left_bytes = max(0, self.left_bytes - length)
        return found

    def load(self, records: Records) -> Piece | None:
        """The records to be sent, None where they are missing. Raises OSError."""
        if not records.length:
            return _NOTHING
        sent = loaded(records, self._takes_files, self._state, wait=self.last)
        if sent is None:
            self._note(NeedsPages(records, records.closed))
        return sent

    def _note(self, missing: Needs) -> None:
        if self._failed:
            raise OSError(errno.EIO, "the disk could not bring what was missing")
        self.missing.append(missing)
        self.min_one = False
