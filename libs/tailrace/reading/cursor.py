"""The position of a reader in one partition, and the records of a Fetch answer from there on. Pure.

A Fetch answer has whole batches: the first may begin before the position, and the last may be cut (KIP-74).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tailrace.records.batch import BatchHeader, Bytes, validate, whole_batches
from tailrace.records.markers import ABORT, MARKER_KEY
from tailrace.records.record import Record, iterate


class Cursor:
    """The next offset of a partition that a reader has not seen; `end`: the offset at which the reader stops."""

    def __init__(self, partition: int, offset: int, end: int | None = None) -> None:
        self.partition = partition
        self.offset = offset
        self.end = end

    @property
    def done(self) -> bool:
        return self.end is not None and self.offset >= self.end

    def take(self, records: Bytes, aborted: Iterable[tuple[int, int]] = ()) -> Iterator[Record]:
        """The records of a Fetch answer from the position up to the end, which the position follows.

        aborted: producer id and first offset of the aborted transactions in it, which read_committed leaves out.
        Raises ApiError (CORRUPT_MESSAGE) for damaged batches.
        """
        waiting = sorted(aborted, key=lambda one: one[1], reverse=True)
        ended: set[int] = set()  # producers whose records are of an aborted transaction until its marker
        for batch in whole_batches(records):
            header = validate(batch)
            while waiting and waiting[-1][1] <= header.last_offset:
                ended.add(waiting.pop()[0])
            if header.is_control:
                if header.producer_id in ended and _is_abort(batch):
                    ended.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in ended):
                yield from self._take_batch(header, batch)
            if self.done:
                return
            self.offset = max(self.offset, header.next_offset)

    def _take_batch(self, header: BatchHeader, batch: memoryview) -> Iterator[Record]:
        if header.next_offset <= self.offset:
            return
        for record in iterate(batch):
            if self.end is not None and record.offset >= self.end:
                self.offset = self.end
                return
            if record.offset >= self.offset:
                self.offset = record.offset + 1
                yield record


def _is_abort(batch: memoryview) -> bool:
    return any(record.key is not None and MARKER_KEY.unpack_from(record.key)[1] == ABORT for record in iterate(batch))
