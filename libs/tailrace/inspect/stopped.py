"""What a partition's directory says while no broker has it: read only, for what looks into directories from outside."""

from __future__ import annotations

from tailrace.log.filesystem.port import Filesystem
from tailrace.log.producers.open_transactions import NEVER
from tailrace.log.producers.snapshots import producers_at
from tailrace.log.segment.segment import MAX_RELATIVE_OFFSET, Segment, bases_of


def first_open_transaction(filesystem: Filesystem, directory: str) -> int | None:
    """Where the oldest open transaction begins, None if none is open; OSError.

    By the newest sound producer snapshot and the batches after it: after a clean shutdown there are none.
    """
    segments = []
    for base_offset in bases_of(filesystem.list(directory)):
        segment = Segment(filesystem, directory, base_offset, 0)
        segment.size_bytes = segment.file.stat().size_bytes
        segments.append(segment)
    if not segments:
        return None
    state = producers_at(filesystem, directory, segments, segments[-1].base_offset + MAX_RELATIVE_OFFSET)
    # A transaction whose marker is there is decided, replicated or not: nobody goes on to write in this directory.
    state.transactions.replicated(NEVER)
    first_offset = state.transactions.first_unstable_offset
    return None if first_offset == NEVER else first_offset
