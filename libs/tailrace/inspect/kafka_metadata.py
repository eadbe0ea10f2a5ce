"""Reading a stopped Apache Kafka's `__cluster_metadata-0`: its newest snapshot, then the log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tailrace.errors import ApiError
from tailrace.inspect import files
from tailrace.kafka.topics import CLUSTER_METADATA_TOPIC
from tailrace.metadata.kraft import Replayed
from tailrace.records.batch import HEADER_SIZE, BatchHeader, Bytes, read_header, validate
from tailrace.records.record import iterate

DIRECTORY: Final = f"{CLUSTER_METADATA_TOPIC}-0"
_SNAPSHOT: Final = re.compile(r"(?P<offset>\d{20})-(?P<epoch>\d{10})\.checkpoint$")


def replay(log_directory: Path) -> Replayed:
    """The metadata at the end of the log. Raises MalformedRecord, and ValueError where batches are damaged or missing.

    A cut batch at the end is passed over, as Kafka does: it was never committed.
    """
    directory = log_directory / DIRECTORY
    replayed = Replayed()
    snapshots = [found for path in directory.iterdir() if (found := _SNAPSHOT.match(path.name))]
    if snapshots:
        newest = max(snapshots, key=lambda found: found["offset"])
        data = files.content(directory / newest[0])
        for header, batch in _batches(data, directory / newest[0], may_be_cut=False):
            if not header.is_control:
                replayed.apply(_values(batch), int(newest["offset"]) - 1, int(newest["epoch"]))
    logs = sorted(directory.glob("*.log"))
    for path in logs:
        for header, batch in _batches(files.content(path), path, may_be_cut=path is logs[-1]):
            _continue(replayed, header, batch, path)
    if replayed.image.offset < 0:
        raise ValueError(f"{directory} holds no metadata")
    return replayed


def _continue(replayed: Replayed, header: BatchHeader, batch: memoryview, path: Path) -> None:
    image = replayed.image
    if header.last_offset <= image.offset:
        return
    if header.base_offset != image.offset + 1:
        raise ValueError(f"{path} goes on at {header.base_offset}, but the metadata before it ends at {image.offset}")
    values = [] if header.is_control else _values(batch)
    replayed.apply(values, header.last_offset, header.partition_leader_epoch)


def _values(batch: memoryview) -> list[bytes]:
    return [record.value or b"" for record in iterate(batch)]


def _batches(data: Bytes, path: Path, *, may_be_cut: bool) -> Iterator[tuple[BatchHeader, memoryview]]:
    view, position = memoryview(data), 0
    while position < len(view):
        try:
            header = read_header(view, position) if len(view) - position >= HEADER_SIZE else None
            batch = view[position : position + header.size_bytes] if header else view[position:]
            validate(batch)
        except ApiError as error:
            if may_be_cut:
                return
            raise ValueError(f"{path} is damaged at {position}: {error.message}") from None
        assert header is not None
        yield header, batch
        position += header.size_bytes
