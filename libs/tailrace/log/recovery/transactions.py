"""The transaction indexes of a log that is being opened: read, or rebuilt from the batches as Kafka's recovery does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tailrace.log.filesystem.port import Filesystem, join
from tailrace.log.producers.snapshots import marker_at, producers_at
from tailrace.log.segment.segment import Segment, file_name
from tailrace.log.segment.transaction_index import (
    TRANSACTION_INDEX_SUFFIX,
    TRANSACTION_SUMS_SUFFIX,
    TransactionIndex,
    sums_path,
)
from tailrace.log.segment.transactions import DamagedIndex
from tailrace.log.segment.valid import headers


def restore(
    filesystem: Filesystem, directory: str, names: set[str], segments: Sequence[Segment], first_checked: int
) -> None:
    """Gives every segment its index. names is what the directory holds.

    What recovery has checked batch by batch (from segment first_checked on) is rebuilt where it met a marker; of the
    others a damaged index is. An index that is not there is an empty one, as in Kafka.
    """
    wanted: list[Segment] = []
    for number, segment in enumerate(segments):
        if _name(segment) not in names:
            if segment.aborted is not None:
                wanted.append(segment)
            continue
        try:
            index = TransactionIndex.load(filesystem, segment.path(TRANSACTION_INDEX_SUFFIX))
        except DamagedIndex:
            index = None
        if index is None or number >= first_checked:
            index = TransactionIndex(named=True)
            wanted.append(segment)
        segment.aborted = index
    if wanted:
        _rebuild(filesystem, directory, segments, wanted)
    _remove_orphans(filesystem, directory, names, segments)


def _name(segment: Segment) -> str:
    return file_name(segment.base_offset, TRANSACTION_INDEX_SUFFIX)


def _rebuild(filesystem: Filesystem, directory: str, segments: Sequence[Segment], wanted: Sequence[Segment]) -> None:
    """Replays the producers from the first wanted segment on; an index that stays empty goes."""
    start = wanted[0].base_offset
    state = producers_at(filesystem, directory, segments, start)
    for segment in segments:
        if not start <= segment.base_offset <= wanted[-1].base_offset:
            continue
        for position, header in headers(segment, 0):
            aborted = state.apply(header, marker_at(segment, position, header))
            if aborted is not None and segment in wanted and segment.aborted is not None:
                segment.aborted.append(aborted)
    for segment in wanted:
        index, path = segment.aborted, segment.path(TRANSACTION_INDEX_SUFFIX)
        if index is None or not len(index):
            segment.aborted = None
            if index is not None and index.named:
                filesystem.remove(path)
                with suppress(FileNotFoundError):
                    filesystem.remove(sums_path(path))
            continue
        for file in index.save(filesystem, path):
            file.sync()


def _remove_orphans(filesystem: Filesystem, directory: str, names: set[str], segments: Sequence[Segment]) -> None:
    """Indexes of segments that recovery dropped, or that a crash left behind, and sums without an index."""
    here = {_name(segment) for segment in segments}
    gone = [name for name in names if name.endswith(TRANSACTION_INDEX_SUFFIX) and name not in here]
    for name in names:
        if name.endswith(TRANSACTION_SUMS_SUFFIX):
            index = name.removesuffix(TRANSACTION_SUMS_SUFFIX) + TRANSACTION_INDEX_SUFFIX
            gone += [name] if index not in here & names else []
    for name in sorted(gone):
        with suppress(FileNotFoundError):  # sums that went with their index
            filesystem.remove(join(directory, name))
