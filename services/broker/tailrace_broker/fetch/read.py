"""Reads: what one look of a Fetch finds of its partitions' records, and what the disk has to bring first.

    find   whole batches from an offset on, up to where the reader may see the log, as a slice of a file
    load   the records of such a slice as they are sent: a copy, or the slice for the connection to send

Nothing here waits. What would have to wait for the disk is noted in `missing`; delayed.py has that brought
(cold_reads/), and then the fetch looks at all of its partitions again. A look that `waits` is the last one: memory has
lost what the disk brought too often, so it reads a little from the disk itself.
"""

from __future__ import annotations

import errno
from typing import Any, TypeAlias

from tailrace.log.read import NotCached, SegmentScan, Slice
from tailrace_broker.cold_reads.readers import loaded
from tailrace_broker.cold_reads.reads import LAST_BYTES
from tailrace_broker.partitions.partition import FetchIsolation, Partition

Missing: TypeAlias = Slice | SegmentScan
_NOTHING = b""


class Reads:
    """One look: how much of max_bytes is left, what was found within it, and what is missing."""

    __slots__ = ("_failed", "_state", "_takes_files", "found_bytes", "left_bytes", "min_one", "missing", "waits")

    def __init__(
        self, max_bytes: int, takes_files: bool, state: dict[str, Any], waits: bool = False, failed: bool = False
    ) -> None:
        """takes_files, state: of the connection. failed: the disk could not bring what was missing in the last look."""
        self.left_bytes = max(0, min(max_bytes, LAST_BYTES) if waits else max_bytes)
        self.min_one = True  # the first batch of all is found, however large it is
        self.found_bytes = 0
        self.missing: list[Missing] = []
        self.waits = waits
        self._takes_files = takes_files
        self._state = state
        self._failed = failed

    def find(self, partition: Partition, offset: int, max_bytes: int, isolation: FetchIsolation) -> Slice | None:
        """The partition's batches, None where they are missing. Raises ApiError as Partition.read, and OSError."""
        try:
            piece = partition.read(offset, max_bytes, isolation, min_one=self.min_one, wait=self.waits)
        except NotCached as cold:
            self._note(cold.piece)
            if isinstance(cold.piece, Slice):
                self.left_bytes = max(0, self.left_bytes - cold.piece.length)
            return None
        if length := piece.length:
            self.min_one = False
            self.found_bytes += length
            self.left_bytes = max(0, self.left_bytes - length)
        return piece

    def load(self, piece: Slice) -> Any:
        """The records to be sent, None where they are missing. Raises ApiError CORRUPT_MESSAGE, and OSError."""
        if not piece.length:
            return _NOTHING
        try:
            records = loaded(piece, self._takes_files, self._state, wait=self.waits)
            missing: Missing = piece
        except NotCached as cold:  # what tells whether these are sound batches
            records, missing = None, cold.piece
        if records is None:
            self._note(missing)
        return records

    def _note(self, missing: Missing) -> None:
        if self._failed:
            raise OSError(errno.EIO, "the disk could not bring what was missing")
        self.missing.append(missing)
        self.min_one = False
