"""Reading one partition's directory for what is wrong in it: batches first, then whatever must agree with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from tailrace.errors import ApiError
from tailrace.inspect import files
from tailrace.inspect.findings import BatchFacts, Finding, PartitionFacts, Verified
from tailrace.inspect.verify_indexes import offset_index, time_index, transaction_index
from tailrace.log.filesystem import checkpoints
from tailrace.log.leader_epochs import LeaderEpochs
from tailrace.log.producers import state
from tailrace.log.producers.snapshots import SNAPSHOT_SUFFIX
from tailrace.log.segment import transactions
from tailrace.log.segment.segment import (
    LOG_SUFFIX,
    MAX_RELATIVE_OFFSET,
)
from tailrace.records.batch import HEADER_SIZE, BatchHeader, read_header, validate
from tailrace.records.markers import ABORT

_COMPACTED: Final = (
    "where cleanup.policy is or was compact that is the cleaner's work, copied from another replica, and right; else "
)
_REPLICATED: Final = (
    "stop the broker, move the partition's directory away and start: it is copied from another replica; where this is "
    "the only one, `dump-log` shows what lies before and after"
)


class ProducerSnapshot(NamedTuple):
    """A producer snapshot: the last offset of each producer."""

    path: Path
    offset: int
    last_offsets: dict[int, int]


def verify_partition(partition: PartitionFacts, on_read: Callable[[int], None]) -> Verified:
    """Reads every file of the partition, one segment's batches in memory at a time."""
    found = Verified()
    segments: list[tuple[Path, int]] = []
    for path in sorted(partition.directory.glob(f"*{LOG_SUFFIX}")):
        try:
            segments.append((path, files.base_offset(path)))
        except ValueError as error:
            found.findings.append(Finding(path, str(error), "move it away: no broker reads it"))
    found.start_offset = found.end_offset = segments[0][1] if segments else 0
    snapshots = list(_snapshots(partition, found))
    wanted = {offset for snapshot in snapshots for offset in snapshot.last_offsets.values()}
    epochs = _EpochCheck(partition, found)
    for index, (path, base_offset) in enumerate(segments):
        following = segments[index + 1][1] if index + 1 < len(segments) else None
        found.batches, found.aborts, found.aborted = [], {}, {}
        found.findings += _segment(path, base_offset, following, found, on_read)
        found.ends |= wanted & {batch.last_offset for batch in found.batches}
        writing = following is None and not partition.clean
        found.findings += offset_index(path, base_offset, found.batches, writing)
        found.findings += time_index(path, base_offset, found.batches, writing)
        found.findings += transaction_index(path, base_offset, found, writing)
        epochs.check(found.batches)
    epochs.finish()
    dense = partition.dense and not found.compacted
    if dense:
        found.findings += _gaps(found)
    found.findings += _producers(partition.clean, dense, found, snapshots)
    return found


def _gaps(found: Verified) -> Iterator[Finding]:
    """The offsets that are missing in a log that was not compacted, as one finding."""
    if found.gaps:
        path, missing, following = found.gaps[0]
        more = len(found.gaps) - 1
        others = f", and some in {more} more place{'s' * (more != 1)}" if more else ""
        yield Finding(path, f"offsets {missing} to {following - 1} are missing{others}", _COMPACTED + _REPLICATED)


def _segment(
    path: Path, base_offset: int, following: int | None, found: Verified, on_read: Callable[[int], None]
) -> Iterator[Finding]:
    data = memoryview(files.content(path))
    position = 0
    if base_offset < found.end_offset:
        yield Finding(path, f"begins at {base_offset}, but the log goes on at {found.end_offset}", _REPLICATED)
    _note_gap(path, base_offset, found)
    highest = min(base_offset + MAX_RELATIVE_OFFSET, (following or 2**63) - 1)
    while position < len(data):
        header = read_header(data, position) if len(data) - position >= HEADER_SIZE else None
        if header is None or not HEADER_SIZE <= header.size_bytes <= len(data) - position:
            tail = "an unclean start of the broker cuts them off; " if following is None else ""
            what = f"the {len(data) - position} bytes from {position} on are no whole batch"
            yield Finding(path, what, tail + _REPLICATED)
            return
        batch = data[position : position + header.size_bytes]
        fault = _fault(header, batch, found.end_offset, highest)
        if fault:
            # What follows may be whole, but nothing says at which offset: the broker would not read on, either.
            what = f"{fault} in the batch of offset {header.base_offset} at {position}"
            yield Finding(path, what, _REPLICATED)
            return
        _note_gap(path, header.base_offset, found)
        found.compacted |= header.has_delete_horizon or header.record_count <= header.last_offset_delta
        epoch = header.partition_leader_epoch
        found.batches.append(BatchFacts(position, header.base_offset, header.last_offset, header.max_timestamp, epoch))
        if header.is_transactional:
            _note_transaction(header, batch, found)
        found.end_offset = header.next_offset
        position += header.size_bytes
        on_read(header.size_bytes)


def _note_gap(path: Path, following: int, found: Verified) -> None:
    """Notes what is missing before the offset following, where the log then goes on."""
    if following > found.end_offset:
        missing = found.end_offset
        if found.gaps and found.gaps[-1][2] == missing:  # before a segment and at its beginning: one gap
            missing = found.gaps.pop()[1]
        found.gaps.append((path, missing, following))
        found.end_offset = following


def _note_transaction(header: BatchHeader, batch: memoryview, found: Verified) -> None:
    if not header.is_control:
        if header.record_count:  # or the cleaner left it for its sequence number alone
            found.in_transaction.add(header.producer_id)
        return
    marker = transactions.marker_type(batch, header)
    if marker is None:
        return
    if marker == ABORT:
        found.aborts[header.last_offset] = header.producer_id
        if header.producer_id in found.in_transaction:
            found.aborted[header.last_offset] = header.producer_id
    found.in_transaction.discard(header.producer_id)


def _fault(header: BatchHeader, batch: memoryview, expected: int, highest: int) -> str | None:
    try:
        validate(batch)
    except ApiError as error:
        return error.message or "damage"
    if header.base_offset < expected:
        return f"offset {expected} expected, not {header.base_offset},"
    if not header.base_offset <= header.last_offset <= highest:
        return f"last offset {header.last_offset}, which this segment cannot hold,"
    return None


class _EpochCheck:
    """Whether leader-epoch-checkpoint says of every batch the epoch that it carries (KIP-101). One finding at most."""

    _ADVICE = "stop the broker and remove the file and the clean-shutdown marker: it is rebuilt from the segments"

    def __init__(self, partition: PartitionFacts, found: Verified) -> None:
        self._partition, self._found = partition, found
        self._path = partition.directory / checkpoints.LEADER_EPOCH
        self._entries: list[tuple[int, int]] | None = None
        self._over = False
        try:
            content = self._path.read_bytes()
            self._entries = checkpoints.parse_epochs(content) if content else []  # Kafka's, before its first epoch
        except FileNotFoundError:
            self._over = not partition.clean
        except ValueError as error:
            self._say(f"cannot be read: {error}")
        pairs = pairwise(self._entries or ())
        if any(one[0] >= two[0] or one[1] > two[1] or one[1] < 0 for one, two in pairs):
            self._say("epochs or their offsets do not grow")
        self._epochs = LeaderEpochs(self._entries)

    def _say(self, what: str) -> None:
        if not self._over:
            self._found.findings.append(Finding(self._path, what, self._ADVICE))
        self._over = True

    def check(self, batches: list[BatchFacts]) -> None:
        """Takes the batches of the next segment."""
        # What lies below the log's start has lost its epoch: DeleteRecords and retention cut the list there.
        start = max(self._partition.log_start_offset, self._found.start_offset)
        for batch in batches:
            if self._over:
                return
            if batch.leader_epoch < 0 or batch.last_offset < start:
                continue
            if self._entries is None:
                self._say("is missing although the log has leader epochs")
                return
            # Of several epochs that begin at one offset, all but the last wrote nothing.
            for offset in (max(batch.base_offset, start), batch.last_offset):
                known = self._epochs.epoch_at(offset)
                if known != batch.leader_epoch:
                    self._say(f"says epoch {known} for offset {offset}, whose batch is of {batch.leader_epoch}")

    def finish(self) -> None:
        """All batches were seen."""
        if self._entries and self._entries[-1][1] > self._found.end_offset:
            epoch, offset = self._entries[-1]
            self._say(f"epoch {epoch} begins at {offset}, beyond the log's end {self._found.end_offset}")


_SNAPSHOT_ADVICE: Final = "stop the broker and remove the file: producers' states are replayed from the segments"


def _snapshots(partition: PartitionFacts, found: Verified) -> Iterator[ProducerSnapshot]:
    for path in sorted(partition.directory.glob(f"*{SNAPSHOT_SUFFIX}")):
        try:
            offset = files.base_offset(path)
            entries = state.decode_snapshot(bytes(files.content(path))).entries
        except (ApiError, ValueError) as error:
            found.findings.append(Finding(path, str(error), _SNAPSHOT_ADVICE))
            continue
        last = {producer_id: entry.batches[-1].last_offset for producer_id, entry in entries.items() if entry.batches}
        yield ProducerSnapshot(path, offset, last)


def _producers(clean: bool, dense: bool, found: Verified, snapshots: list[ProducerSnapshot]) -> Iterator[Finding]:
    for path, offset, last_offsets in snapshots:
        if offset > found.end_offset:
            if clean:
                yield Finding(path, f"is of offset {offset}, beyond the log's end {found.end_offset}", _SNAPSHOT_ADVICE)
            continue
        for producer_id, last in last_offsets.items():
            gone = dense and last >= found.start_offset and last not in found.ends
            if last >= offset or gone:
                yield Finding(path, f"producer {producer_id} ends at {last}, where no batch ends", _SNAPSHOT_ADVICE)
                break
