"""What is known of a log that nobody has opened, from the names and sizes of its files and one index entry.

It holds until the log is opened, because nobody writes to it before. Where more must be known, the log is opened.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from tailrace.log.config import LogConfig, LogSettings
from tailrace.log.filesystem.names import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from tailrace.log.filesystem.port import Filesystem, join
from tailrace.log.segment.index import TIME_ENTRY_SIZE, TIME_INDEX_SUFFIX
from tailrace.log.segment.segment import LOG_SUFFIX, bases_of, file_name

# Where the topic's configs are not known yet: a gap in a compacted log is no damage.
OF_ANY_POLICY: Final = LogConfig(cleanup_policy="compact,delete")
_ENTRY: Final = Struct(">qi")
_LEFT_BEHIND: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)


class PartitionFiles(NamedTuple):
    """The files of one partition; sizes in bytes, of .log files."""

    size_bytes: int
    first_size_bytes: int
    base_offsets: tuple[int, ...]
    first_largest_timestamp_ms: int | None  # of the oldest segment; None where its index does not say
    left_behind: bool  # files that go when the log is opened


def look(filesystem: Filesystem, directory: str) -> PartitionFiles:
    """Lists a partition's directory and reads the last entry of its oldest time index; for a thread. Raises OSError."""
    names = filesystem.list(directory)
    bases = bases_of(names)
    sizes = [filesystem.open(join(directory, file_name(base, LOG_SUFFIX))).stat().size_bytes for base in bases]
    largest = None
    if bases and (index := file_name(bases[0], TIME_INDEX_SUFFIX)) in names:
        largest = _last_timestamp(filesystem, join(directory, index))
    left_behind = any(name.endswith(_LEFT_BEHIND) for name in names)
    return PartitionFiles(sum(sizes), sizes[0] if sizes else 0, tuple(bases), largest, left_behind)


def _last_timestamp(filesystem: Filesystem, path: str) -> int | None:
    """Of a closed log the largest in the segment: closing it notes that."""
    file = filesystem.open(path)
    size = file.stat().size_bytes
    if not size or size % TIME_ENTRY_SIZE:
        return None
    timestamp: int = _ENTRY.unpack(file.pread(TIME_ENTRY_SIZE, size - TIME_ENTRY_SIZE))[0]
    return timestamp if timestamp >= 0 else None


def has_work(
    listing: PartitionFiles, settings: LogSettings, now_ms: int, log_start_offset: int, cleaned_offset: int
) -> bool:
    """Whether retention or compaction may find something to do in a log that was closed cleanly; False is certain."""
    if listing.left_behind or not listing.base_offsets:
        return True
    if not listing.size_bytes and len(listing.base_offsets) == 1:
        return False
    second = listing.base_offsets[1] if len(listing.base_offsets) > 1 else None
    if log_start_offset > listing.base_offsets[0] and (second is None or second <= log_start_offset):
        return True
    if "compact" in settings.cleanup_policy and listing.base_offsets[-1] > cleaned_offset:
        return True
    if "delete" not in settings.cleanup_policy:
        return False
    if settings.retention_bytes >= 0 and listing.size_bytes - settings.retention_bytes >= listing.first_size_bytes:
        return True
    largest = listing.first_largest_timestamp_ms
    return settings.retention_ms >= 0 and (largest is None or now_ms - largest > settings.retention_ms)
