"""Producer-state snapshot files: from where a start replays batch headers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tailrace.errors import ApiError
from tailrace.log.filesystem import Filesystem, join, read_file
from tailrace.log.producer_state import ProducerState, decode_snapshot, encode_snapshot
from tailrace.log.segment import Segment, file_name

SNAPSHOT_SUFFIX: Final = ".snapshot"


def snapshot_offsets(filesystem: Filesystem, directory: str) -> list[int]:
    """The offsets of the snapshots there are, in growing order."""
    names = filesystem.list(directory)
    return sorted(int(name[:-9]) for name in names if name.endswith(SNAPSHOT_SUFFIX) and name[:-9].isdigit())


def save_producers(filesystem: Filesystem, directory: str, state: ProducerState, offset: int) -> None:
    """Writes the state as of offset, unsynced: a snapshot that a crash damaged is found out and passed over."""
    path = join(directory, file_name(offset, SNAPSHOT_SUFFIX))
    file = filesystem.open(path + ".tmp", create=True)
    file.truncate(0)
    file.pwritev([encode_snapshot(state)], 0)
    filesystem.rename(path + ".tmp", path)


def load_producers(
    filesystem: Filesystem, directory: str, segments: list[Segment], log_end_offset: int
) -> ProducerState:
    """The state as of log_end_offset: the newest sound snapshot and the headers after it; later ones are removed."""
    state, start = ProducerState(), 0
    for offset in reversed(snapshot_offsets(filesystem, directory)):
        path = join(directory, file_name(offset, SNAPSHOT_SUFFIX))
        if offset > log_end_offset:
            filesystem.remove(path)
            continue
        try:
            state, start = decode_snapshot(read_file(filesystem, path)), offset
            break
        except ApiError:
            filesystem.remove(path)
    if start < log_end_offset:
        replay(state, segments, start)
    return state


def replay(state: ProducerState, segments: list[Segment], start: int) -> None:
    """Applies the batches from start on."""
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if following is None or following.base_offset > start:
            for _, header in segment.headers(segment.position_of(start)):
                state.apply(header)


def remove_snapshots(filesystem: Filesystem, directory: str, keep: Iterable[int]) -> None:
    """Removes all but those of the kept offsets and the newest."""
    offsets = snapshot_offsets(filesystem, directory)
    for offset in set(offsets[:-1]).difference(keep):
        filesystem.remove(join(directory, file_name(offset, SNAPSHOT_SUFFIX)))
