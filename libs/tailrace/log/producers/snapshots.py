"""Producer-state snapshot files: from where a start replays batch headers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from tailrace.errors import ApiError
from tailrace.log.filesystem.names import TEMPORARY_SUFFIX
from tailrace.log.filesystem.port import Filesystem, join, read_file
from tailrace.log.producers.state import BatchMetadata, ProducerEntry, ProducerState, decode_snapshot, encode_snapshot
from tailrace.log.segment.search import indexes_of, position_of
from tailrace.log.segment.segment import Segment, file_name
from tailrace.log.segment.transactions import Marker, read_marker
from tailrace.log.segment.valid import headers
from tailrace.records.batch import BatchHeader

SNAPSHOT_SUFFIX: Final = ".snapshot"
# How far before a snapshot batches are looked at again: a producer has five in flight, a batch is 16 KiB by default.
_LOOK_BACK_BYTES: Final = 1024 * 1024


def snapshot_offsets(filesystem: Filesystem, directory: str) -> list[int]:
    """The offsets of the snapshots there are, in growing order."""
    names = filesystem.list(directory)
    return sorted(int(name[:-9]) for name in names if name.endswith(SNAPSHOT_SUFFIX) and name[:-9].isdigit())


class PendingSnapshot(NamedTuple):
    """The producers as of an offset, not written yet."""

    offset: int
    entries: Mapping[int, ProducerEntry]


class SnapshotFile(NamedTuple):
    """The file of a snapshot on its way: write() in a thread, then finish() unless the log was cut meanwhile."""

    filesystem: Filesystem
    directory: str
    snapshot: PendingSnapshot

    @property
    def _path(self) -> str:
        return join(self.directory, file_name(self.snapshot.offset, SNAPSHOT_SUFFIX))

    def write(self) -> None:
        """Unsynced: a snapshot that a crash damaged is found out and passed over. Raises OSError."""
        file = self.filesystem.open(self._path + TEMPORARY_SUFFIX, create=True)
        file.truncate(0)
        file.pwritev([encode_snapshot(self.snapshot.entries)], 0)

    def finish(self) -> None:
        """Gives it its name. Raises OSError."""
        self.filesystem.rename(self._path + TEMPORARY_SUFFIX, self._path)


def save_producers(filesystem: Filesystem, directory: str, snapshot: PendingSnapshot) -> None:
    """Writes a snapshot at once. Raises OSError."""
    file = SnapshotFile(filesystem, directory, snapshot)
    file.write()
    file.finish()


def _nobody(header: BatchHeader) -> None:
    """Hears of no batch."""


def load_producers(
    filesystem: Filesystem,
    directory: str,
    segments: Sequence[Segment],
    log_end_offset: int,
    passed: Callable[[BatchHeader], None] = _nobody,
) -> ProducerState:
    """The state as of log_end_offset: the newest sound snapshot and the headers after it; later ones are removed.

    So are those from before the first segment: what lies between is not known any more, as in Kafka. `passed` hears
    of each batch and may raise to stop.
    """
    state, start, ahead = ProducerState(), 0, False
    for offset in reversed(snapshot_offsets(filesystem, directory)):
        path = join(directory, file_name(offset, SNAPSHOT_SUFFIX))
        if not segments[0].base_offset <= offset <= log_end_offset:
            filesystem.remove(path)
            ahead = ahead or offset > log_end_offset
            continue
        try:
            state, start = decode_snapshot(read_file(filesystem, path)), offset
            recall(state, segments, offset)
            break
        except ApiError:
            filesystem.remove(path)
    if ahead:
        filesystem.sync_directory(directory)  # or a crash brings it back behind new records of its offsets

    def reached(segment: Segment) -> None:  # as in Kafka, where a crash came before the snapshot of a roll was written
        if state.entries and segment in segments[-2:] and segment.base_offset > start:
            with suppress(OSError):  # a full disk: the batches are still there to be replayed
                save_producers(filesystem, directory, PendingSnapshot(segment.base_offset, state.entries))

    if start < log_end_offset:
        replay(state, segments, start, passed, reached)
    return state


def producers_at(filesystem: Filesystem, directory: str, segments: Sequence[Segment], offset: int) -> ProducerState:
    """The state as of offset, the beginning of a segment; nothing is changed on the disk."""
    state, start = ProducerState(), 0
    for at in reversed(snapshot_offsets(filesystem, directory)):
        if segments[0].base_offset <= at <= offset:
            path = join(directory, file_name(at, SNAPSHOT_SUFFIX))
            try:
                state, start = decode_snapshot(read_file(filesystem, path)), at
                break
            except ApiError:
                continue
    earlier = [segment for segment in segments if segment.base_offset < offset]
    if earlier and start < offset:
        replay(state, earlier, start)
    return state


def marker_at(segment: Segment, position: int, header: BatchHeader) -> Marker | None:
    """What ends a transaction in the batch at position, if anything does."""
    return read_marker(segment.read_batch(position, header), header) if header.is_control else None


def recall(state: ProducerState, segments: Sequence[Segment], offset: int) -> None:
    """Gives producers back the batches before their last one, which a snapshot leaves out.

    With the last alone, the retry of an earlier batch that was in flight when this log was closed would be refused.
    """
    earlier = ProducerState()
    for segment, start, end in reversed(list(_before(segments, offset) if state.entries else ())):
        for position, header in headers(segment, start):
            if position >= end:
                break
            earlier.apply(header)
    for producer_id, found in earlier.entries.items():
        entry = state.entries.get(producer_id)
        if entry is not None and entry.batches and _same(entry.batches[-1], found.batches[-1]):
            state.entries[producer_id] = entry._replace(batches=(*found.batches[:-1], entry.batches[-1]))


def _before(segments: Sequence[Segment], offset: int) -> Iterator[tuple[Segment, int, int]]:
    """The last bytes before offset as (segment, start, end), newest first; starts are batches' beginnings."""
    left = _LOOK_BACK_BYTES
    for segment in reversed(segments):
        if segment.base_offset < offset and left > 0:
            end = position_of(segment, offset)
            start = indexes_of(segment)[0].floor_position(max(0, end - left))
            left -= end - start
            yield segment, start, end


def _same(one: BatchMetadata, other: BatchMetadata) -> bool:
    return (one.last_offset, one.last_sequence) == (other.last_offset, other.last_sequence)


def replay(
    state: ProducerState,
    segments: Sequence[Segment],
    start: int,
    passed: Callable[[BatchHeader], None] = _nobody,
    reached: Callable[[Segment], None] = lambda segment: None,
) -> None:
    """Applies the batches from start on."""
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if following is None or following.base_offset > start:
            reached(segment)
            for position, header in headers(segment, position_of(segment, start)):
                passed(header)
                state.apply(header, marker_at(segment, position, header))


def remove_snapshots(filesystem: Filesystem, directory: str, keep: Iterable[int]) -> None:
    """Removes all but those of the kept offsets and the newest."""
    offsets = snapshot_offsets(filesystem, directory)
    for offset in set(offsets[:-1]).difference(keep):
        filesystem.remove(join(directory, file_name(offset, SNAPSHOT_SUFFIX)))


def remove_all_snapshots(filesystem: Filesystem, directory: str) -> None:
    """The log begins again: nothing is known of its producers."""
    for offset in snapshot_offsets(filesystem, directory):
        filesystem.remove(join(directory, file_name(offset, SNAPSHOT_SUFFIX)))


def remove_snapshots_above(filesystem: Filesystem, directory: str, offset: int) -> None:
    """Removes those of what is about to be cut."""
    for at in snapshot_offsets(filesystem, directory):
        if at > offset:
            filesystem.remove(join(directory, file_name(at, SNAPSHOT_SUFFIX)))
