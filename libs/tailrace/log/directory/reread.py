"""What a failed write-back left in the page cache, dropped before a start of the same boot believes it.

Linux calls pages clean that it could not write and goes on showing them; the next fsync, also another process's, says
yes, and they are gone with the next boot. Below a recovery point an fsync has succeeded, so that only what lies above
is dropped and read again from the disk, which costs the time to read it.

A Guard leaves a mark at a failure that it has seen. One that nobody has seen when the process was killed needs none:
the kernel tells it to the first fsync of a file that was opened later (errseq_t), as long as it keeps the file in
memory, and so to the first flush, before which nothing is called durable. That flush fails, and leaves a mark.
"""

from __future__ import annotations

from bisect import bisect_right

from tailrace.log.filesystem.port import Filesystem, join
from tailrace.log.segment.segment import bases_of


def reread_tail(filesystem: Filesystem, directory: str, recovery_point: int) -> int:
    """Has a log's files that no flush has covered read from the disk from now on; their size in bytes."""
    names = filesystem.list(directory)
    bases = bases_of(names)
    first = bases[max(0, bisect_right(bases, recovery_point) - 1)] if bases else 0
    size_bytes = 0
    for name in names:
        # What bears no offset is small, and written with a sync or without.
        if not name[:20].isdigit() or int(name[:20]) >= first:
            file = filesystem.open(join(directory, name))
            file.reread()
            size_bytes += file.stat().size_bytes
    return size_bytes
