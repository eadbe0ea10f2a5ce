"""What the log of a world must hold: every batch that was ever given to it, and which of them it has promised."""

from __future__ import annotations

from dataclasses import dataclass, field

from tailrace.log.producers.state import RETAINED_BATCHES, BatchMetadata, last_sequence
from tailrace.records.batch import BatchHeader, Bytes, read_header
from tailrace.records.record import Record, iterate


class Violation(Exception):
    """A promise was broken."""


@dataclass(frozen=True)
class Batch:
    """One batch as it was given to the log, stamped with its offsets and epoch."""

    data: bytes
    header: BatchHeader
    records: tuple[Record, ...]

    @classmethod
    def of(cls, data: Bytes) -> Batch:
        """Decodes the bytes."""
        kept = bytes(data)
        return cls(kept, read_header(kept), tuple(iterate(kept)))


@dataclass
class Model:
    """The log as it should be. Nothing leaves `batches` but by a cut: retention only moves where reading starts."""

    batches: list[Batch] = field(default_factory=list)
    end: int = 0
    promised: int = 0  # a flush that has finished, or a clean shutdown, covers the offsets below
    start: int = 0  # the log start offset; in one life it never goes back
    highest_start: int = 0  # a kill may take the start back to the last checkpoint; epochs before it may be gone then
    durable_start: int = 0  # what a written checkpoint says: nor does it over a crash
    exact: bool = True  # every batch is where it was written: no compaction ran, no leader's gap was replicated
    now_ms: int = 0
    delete_retention_ms: int = 0
    times: dict[int, int] = field(default_factory=dict)  # offset -> when it was taken, where the log is compacted
    # Batches whose write was begun and not answered with success, by base offset: a crash may leave them in the log.
    maybe: dict[int, list[bytes]] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)  # what may have gone with an unsynced tail of a compacted log
    vague: bool = False  # a reset was not finished: what was before is in `maybe` only
    ends: set[int] = field(default_factory=set)  # where an empty log may go on, while it is begun anew

    def begin(self, data: Bytes) -> None:
        """The batch is about to be written."""
        self.maybe.setdefault(read_header(data).base_offset, []).append(bytes(data))

    def take(self, data: Bytes) -> None:
        """The batch is in the log."""
        batch = Batch.of(data)
        if batch.header.base_offset < self.end:
            raise Violation(f"offset {batch.header.base_offset} was given out twice: the log end is {self.end}")
        self.batches.append(batch)
        self.end = batch.header.next_offset
        if not self.exact:
            self.times.update(dict.fromkeys((record.offset for record in batch.records), self.now_ms))

    def cut(self, end: int) -> None:
        """Nothing from end on is in the log any more; end must be where a batch begins or ended."""
        while self.batches and self.batches[-1].header.base_offset >= end:
            self.batches.pop()
        if self.batches and self.batches[-1].header.next_offset > end:
            raise Violation(f"the log ends at {end}, inside the batch at {self.batches[-1].header.base_offset}")
        self.end = end
        self.promised = min(self.promised, end)

    def reset(self, offset: int) -> None:
        """The log begins anew at offset."""
        self.batches.clear()
        self.maybe.clear()
        self.ends.clear()
        self.end = self.start = offset
        self.promised = 0
        self.vague = False
        self.durable_start = 0

    def forget(self, offset: int) -> None:
        """The log is about to begin anew at offset: until it has, a crash may leave any of what there was."""
        self.batches.clear()
        self.ends = {0, self.start, offset}  # where it began before: nothing of what came since may have been flushed
        self.end = self.promised = self.start = self.durable_start = 0
        self.vague = True

    def settle(self, found: list[bytes], end: int, *, power: bool) -> None:
        """Takes up what a recovery found; only what was not promised may be missing, and only what was begun be new."""
        promised = self.promised
        if not self.exact:
            # Behind its last batch a log may end later, where a cut left it; only the batch is on the disk.
            last = self.batches[-1].header.next_offset if self.batches else 0
            self.end = min(self.end, max(self.start, last))  # an empty log goes on where it starts
            self.promised = min(self.promised, self.end)
        if end < self._promised_batches():
            raise Violation(f"the log ends at {end}: a flush had covered everything below {self.promised}")
        if end < self.end and not power:
            raise Violation(f"the log ends at {end}: no power was lost, and it ended at {self.end}")
        if not found:
            self._settle_empty(end)
            return
        here = {read_header(data).base_offset: data for data in found}
        at = max(self.start, self.promised) if power else max(self.start, self.end)
        for batch in self.batches:
            base = batch.header.base_offset
            if batch.header.next_offset > at and not self._kept(batch, here.get(base), end):
                for lost in self.batches:
                    if lost.header.base_offset >= base:
                        self.begin(lost.data)  # until a cut is synced the next crash may bring it back
                self.cut(base)
                break
        if power and not self.exact:
            # Of a compacted log nobody can tell a closed segment's lost tail from what compaction took.
            self.lost |= {
                record.offset
                for batch in self.batches
                if batch.header.next_offset > at and batch.header.base_offset not in here
                for record in batch.records
            }
        known = {batch.header.base_offset for batch in self.batches}
        for data in found:
            header = read_header(data)
            if header.base_offset in known:
                continue
            if not self._was_given(header.base_offset, data):
                raise Violation(f"the batch at {header.base_offset} was never given to the log")
            if header.base_offset >= self.end:
                self.take(data)
            else:  # a start that went back to before an unfinished reset
                self.batches.append(Batch.of(data))
        self.batches.sort(key=lambda batch: batch.header.base_offset)
        self.end = end
        self.promised = min(promised, end)  # in the gap too, where a roll has given it a name
        self.ends.clear()

    def _promised_batches(self) -> int:
        """What a flush had covered; of a gap that the log ended in then nothing is on the disk."""
        if self.exact:
            return self.promised
        ends = (batch.header.next_offset for batch in self.batches)
        return max((end for end in ends if end <= self.promised), default=min(self.start, self.promised))

    def _was_given(self, base_offset: int, data: bytes) -> bool:
        """Whether a crash may have left the batch there; before an unfinished reset compaction may have been at it."""
        given = self.maybe.get(base_offset, ())
        if data in given:
            return True
        records = set(Batch.of(data).records)
        return self.vague and not self.exact and any(records <= set(Batch.of(one).records) for one in given)

    def _kept(self, batch: Batch, found: bytes | None, end: int) -> bool:
        if found is None:
            return not self.exact and batch.header.base_offset < end  # compaction took it
        return found == batch.data or (not self.exact and found not in self.maybe.get(batch.header.base_offset, ()))

    def _settle_empty(self, end: int) -> None:
        """The log holds nothing, and goes on at end."""
        if end > self.end and end not in self.ends:
            raise Violation(f"the log ends at {end}, and all that was ever given to it at {self.end}")
        self.batches = [batch for batch in self.batches if batch.header.next_offset <= end]
        self.end = end
        self.ends.clear()

    def producer(self, producer_id: int) -> tuple[int, list[BatchMetadata]]:
        """(epoch, last five batches) of a producer, (-1, []) if none of its is in the log or was."""
        epoch, batches = -1, list[BatchMetadata]()
        for batch in self.batches:
            header = batch.header
            if header.producer_id == producer_id and (header.base_sequence >= 0 or header.is_control):
                if header.producer_epoch != epoch:
                    epoch, batches = header.producer_epoch, []
                if header.is_control:
                    continue
                last = last_sequence(header.base_sequence, header.last_offset_delta)
                batches.append(BatchMetadata(last, header.last_offset, header.last_offset_delta, header.max_timestamp))
        return epoch, batches[-RETAINED_BATCHES:]

    def last_offset(self, producer_id: int) -> int:
        """Where its last batch or marker ends, -1 if it has none."""
        own = (batch.header for batch in reversed(self.batches) if batch.header.producer_id == producer_id)
        return next((header.last_offset for header in own), -1)

    def transaction(self, producer_id: int) -> int:
        """The first offset of a producer's open transaction, -1 if none is open."""
        first_offset = -1
        for batch in self.batches:
            if batch.header.producer_id == producer_id and batch.header.is_transactional:
                if batch.header.is_control:
                    first_offset = -1
                elif first_offset < 0:
                    first_offset = batch.header.base_offset
        return first_offset

    def latest(self) -> dict[bytes, Record]:
        """The last record of every key."""
        return {
            record.key: record
            for batch in self.batches
            if not batch.header.is_control
            for record in batch.records
            if record.key is not None
        }
