"""The metadata log as its followers fetch it: committed record batches of `__cluster_metadata` in memory. Pure.

The log begins where the snapshot before last ended; a follower that is further behind is sent to the newest snapshot.
"""

from bisect import bisect_right
from collections.abc import Iterable

from tailrace.net.metadata.batches import MetadataBatch, Snapshot


class MetadataLog:
    """The committed tail of the log, from start_offset up to end_offset (excluded), and the newest snapshot."""

    def __init__(self, snapshot: Snapshot | None, batches: Iterable[MetadataBatch], end_offset: int) -> None:
        self.snapshot = snapshot
        self._batches = list(batches)
        self._ends = [batch.last_offset for batch in self._batches]
        self.end_offset = end_offset
        self.start_offset = self._batches[0].base_offset if self._batches else end_offset

    @property
    def covered(self) -> int:
        """Where the newest snapshot ends, 0 without one."""
        return 0 if self.snapshot is None else self.snapshot.end_offset

    def append(self, batches: Iterable[MetadataBatch]) -> None:
        """Adds committed batches; they continue the log."""
        for batch in batches:
            assert batch.base_offset == self.end_offset
            self._batches.append(batch)
            self._ends.append(batch.last_offset)
            self.end_offset = batch.last_offset + 1

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Returns whole batches from the one that holds offset, at least one if there is any, up to max_bytes."""
        assert self.start_offset <= offset <= self.end_offset
        taken: list[bytes] = []
        size_bytes = 0
        for index in range(bisect_right(self._ends, offset - 1), len(self._batches)):
            data = self._batches[index].data
            if taken and size_bytes + len(data) > max_bytes:
                break
            taken.append(data)
            size_bytes += len(data)
        return b"".join(taken)

    def epoch_before(self, offset: int) -> int | None:
        """Returns the epoch of the record before offset, None where the log no longer knows."""
        index = bisect_right(self._ends, offset - 2)
        if index < len(self._batches) and self._batches[index].base_offset < offset:
            return self._batches[index].epoch
        if self.snapshot is not None and self.snapshot.end_offset == offset:
            return self.snapshot.epoch
        return None

    def take_snapshot(self, snapshot: Snapshot, keep_from: int) -> None:
        """Makes this the snapshot followers get and drops batches below keep_from."""
        self.snapshot = snapshot
        drop = bisect_right(self._ends, keep_from - 1)
        del self._batches[:drop], self._ends[:drop]
        self.start_offset = self._batches[0].base_offset if self._batches else self.end_offset
