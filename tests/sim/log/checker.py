"""What must be true of the log after every event, and what of it is looked at closely after every recovery."""

from __future__ import annotations

import random
from itertools import pairwise

from sim.log.model import Batch, Model, Violation
from tailrace.log import lookup
from tailrace.log.log import Log
from tailrace.log.segment.search import position_of
from tailrace.log.segment.valid import headers
from tailrace.records.batch import read_header, split, validate
from tailrace.records.record import Record

LOOKUPS = 2  # of each kind after an event
UNCHANGED = 0.8  # how often an event that did not change the log is not looked at closely


class Checker:
    """Compares a log with its model; keeps what it has decoded."""

    def __init__(self, model: Model, dice: random.Random) -> None:
        self.model = model
        self.dice = dice
        self.recalled = False  # the log was opened anew: of a producer's batches those before the last may be forgotten
        self._decoded: dict[bytes, Batch] = {}
        self._shape: tuple[object, ...] = ()  # of the log when it was last looked at

    def batch(self, data: bytes) -> Batch:
        """The batch of these bytes."""
        if data not in self._decoded:
            validate(data)
            self._decoded[data] = Batch.of(data)
        return self._decoded[data]

    def look(self, log: Log, high_watermark: int) -> None:
        """After every event."""
        model = self.model
        if log.log_end_offset != model.end:
            raise Violation(f"the log ends at {log.log_end_offset}, not at {model.end}")
        if log.log_start_offset != model.start:
            raise Violation(f"the log starts at {log.log_start_offset}, not at {model.start}")
        if not 0 <= log.recovery_point <= log.log_end_offset:
            raise Violation(f"the recovery point {log.recovery_point} is outside the log")
        if log.recovery_point > max(model.promised, model.start):
            raise Violation(f"the recovery point is {log.recovery_point}: only {model.promised} was flushed")
        shape = (
            log,
            log.log_end_offset,
            log.log_start_offset,
            log.size_bytes,
            list(log.segments.bases),
            log.epochs.latest,
        )
        if shape == self._shape and self.dice.random() < UNCHANGED:
            return  # time is better spent on more worlds
        self._shape = shape
        batches = [self.batch(data) for data in self.walk(log)]
        self.contents(batches)
        self.positions(log)
        self.epochs(log, batches)
        self.producers(log, batches)
        self.timestamps(log, batches, high_watermark)

    def walk(self, log: Log) -> list[bytes]:
        """Every batch a consumer gets that reads all of the log."""
        position, found = log.log_start_offset, list[bytes]()
        while position < log.log_end_offset:
            data = log.read(position, self.dice.choice((1, 300, 5000, 5000, 5000))).read()
            batches = split(data)
            if not batches:
                if self.model.exact:
                    raise Violation(f"nothing is read at {position}, the log ends at {log.log_end_offset}")
                break  # compaction took the last records of what is closed, and the active segment is empty
            found += map(bytes, batches)
            following = read_header(batches[-1]).next_offset
            if following <= position:
                raise Violation(f"a read at {position} answered what ends at {following}")
            position = following
        return found

    def contents(self, batches: list[Batch]) -> None:
        """Only what was appended, where it was appended, once and in order."""
        model = self.model
        known = {batch.header.base_offset: batch for batch in model.batches}
        position = model.start
        for batch in batches:
            header = batch.header
            original = known.get(header.base_offset)
            if original is None:
                raise Violation(f"the batch at {header.base_offset} was never appended there")
            if header.next_offset <= position or (header.base_offset > position and model.exact):
                raise Violation(f"the batch at {header.base_offset} does not follow {position}")
            if batch.data != original.data and (model.exact or not _remains(batch, original)):
                raise Violation(f"the batch at {header.base_offset} is not what was appended")
            position = header.next_offset
        if model.exact and position != max(model.end, model.start):
            raise Violation(f"the batches end at {position}, the log at {model.end}")

    def compacted(self, batches: list[Batch]) -> None:
        """Nothing is missing but what a later record of its key supersedes; tombstones stay; no key comes back."""
        latest = self.model.latest()
        here = {record.offset for batch in batches for record in batch.records}
        oldest = batches[0].header.base_offset if batches else self.model.end
        first_of: dict[bytes, Record] = {}
        for batch in batches:
            if not batch.header.is_control:
                for record in batch.records:
                    if record.key is not None:
                        first_of.setdefault(record.key, record)
        for key, record in latest.items():
            if record.offset < max(self.model.start, oldest) or record.offset in here | self.model.lost:
                continue
            if record.value is not None:
                raise Violation(f"key {key!r} lost its value at {record.offset}")
            if self.model.now_ms < self.model.times.get(record.offset, 0) + self.model.delete_retention_ms:
                raise Violation(f"the tombstone at {record.offset} of key {key!r} went before delete.retention.ms")
            if key in first_of:
                raise Violation(f"key {key!r} was deleted at {record.offset} and is back at {first_of[key].offset}")

    def positions(self, log: Log) -> None:
        """Index lookups agree with a scan of the segment."""
        segments = log.segments
        if [segment.base_offset for segment in segments] != log.segments.bases:
            raise Violation("the log does not know its segments' base offsets")
        segment = self.dice.choice(segments)
        found = list(headers(segment, 0))
        for position, header in self.dice.sample(found, min(LOOKUPS, len(found))):
            for offset in (header.base_offset, header.last_offset):
                if position_of(segment, offset) != position:
                    raise Violation(
                        f"offset {offset} is looked up at {position_of(segment, offset)}, not at {position}"
                    )
        for one, other in pairwise(segments):
            if one.base_offset >= other.base_offset:
                raise Violation("segments are out of order")

    def epochs(self, log: Log, batches: list[Batch]) -> None:
        """Leader epochs only grow, and name the writer of every batch."""
        entries = log.epochs.entries()
        for one, other in pairwise(entries):
            if not (one[0] < other[0] and one[1] < other[1]):
                raise Violation(f"epochs are not monotone: {entries}")
        if log.epochs.latest != (entries[-1][0] if entries else -1):
            raise Violation(f"the latest epoch is {log.epochs.latest}, the entries are {entries}")
        for batch in batches:
            header = batch.header
            if header.base_offset >= log.log_start_offset:
                epoch = log.epochs.epoch_at(header.base_offset)
                forgotten = epoch < 0 and header.base_offset < self.model.highest_start
                if epoch != header.partition_leader_epoch and not forgotten:
                    raise Violation(f"epoch {epoch} at {header.base_offset}, not {header.partition_leader_epoch}")

    def producers(self, log: Log, batches: list[Batch]) -> None:
        """Producer state is what the log's batches make of it."""
        here = {batch.header.last_offset for batch in batches}
        ids = {batch.header.producer_id for batch in self.model.batches if batch.header.base_sequence >= 0}
        for producer_id in ids | log.producers.entries.keys():
            epoch, expected = self.model.producer(producer_id)
            entry = log.producers.entries.get(producer_id)
            if entry is not None and self.model.exact:
                open_since = self.model.transaction(producer_id)
                if open_since >= log.segments.bases[0] and open_since != entry.current_txn_first_offset:
                    raise Violation(f"producer {producer_id} has a transaction since {open_since}, not as in {entry}")
            if not expected and self.model.vague:
                continue
            if entry is None or not entry.batches:
                if expected and expected[-1].last_offset in here:
                    raise Violation(f"producer {producer_id} is forgotten: it wrote {expected[-1]}")
                continue
            places = [(batch.last_sequence, batch.last_offset, batch.offset_delta) for batch in entry.batches]
            truth = [(batch.last_sequence, batch.last_offset, batch.offset_delta) for batch in expected]
            if self.model.vague:
                places = places[-len(truth) :]  # a snapshot may know of what was before the log began anew, or not
            least = 1 if self.recalled else len(truth)
            wanted = truth[-max(least, len(places)) :]
            # Compaction may take all but a producer's last batch, and what it took for the last a crash may cut.
            if not self.model.exact:
                # So may a marker be, which alone may have brought its producer's epoch.
                last = expected[-1].last_offset if expected else self.model.last_offset(producer_id)
                if last not in here:
                    continue
                wanted, places = wanted[-1:], places[-1:]
            if entry.producer_epoch != epoch or places != wanted:
                raise Violation(f"producer {producer_id} is {entry.producer_epoch} {places}, not {epoch} {truth}")

    def timestamps(self, log: Log, batches: list[Batch], high_watermark: int) -> None:
        """Lookups by time agree with a scan."""
        records = [
            record
            for batch in batches
            for record in batch.records
            if log.log_start_offset <= record.offset < high_watermark
        ]
        for _ in range(LOOKUPS if records else 0):
            wanted = self.dice.choice(records).timestamp + self.dice.choice((-1, 0, 1))
            hit = lookup.find(log, wanted, high_watermark)
            truth = next((record.offset for record in records if record.timestamp >= wanted), None)
            if (hit.offset if hit else None) != truth:
                raise Violation(f"timestamp {wanted} is found at {hit}, not at {truth}")
        newest = lookup.find(log, None, high_watermark)
        largest = max(records, key=lambda record: (record.timestamp, -record.offset), default=None)
        if (newest.offset if newest else None) != (largest.offset if largest else None):
            raise Violation(f"the newest record is found at {newest}, not at {largest}")


def _remains(batch: Batch, original: Batch) -> bool:
    """Whether compaction may have made batch of original."""
    return batch.header.last_offset == original.header.last_offset and set(batch.records) <= set(original.records)
