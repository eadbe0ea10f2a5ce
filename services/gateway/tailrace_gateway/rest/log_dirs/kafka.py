"""What a broker's log directories hold: DescribeLogDirs v4 (KIP-113, KIP-827)."""

from __future__ import annotations

from typing import NamedTuple

from tailrace.log.directory.disk_pressure import Level
from tailrace.wire.messages import DescribeLogDirsRequest
from tailrace_gateway.rest.backend import READ_TIMEOUT_MS, AdminBackend
from tailrace_gateway.rest.log_dirs.space import level_of

_VERSION = 4


class LogDirRow(NamedTuple):
    """One log directory; error_code KAFKA_STORAGE_ERROR while its disk is offline, sizes are -1, level None then."""

    path: str
    error_code: int
    total_bytes: int
    usable_bytes: int
    size_bytes: int
    partitions: int
    moving_here: int
    level: Level | None


async def describe(backend: AdminBackend, broker_id: int) -> list[LogDirRow]:
    """Every configured log directory of a broker; TimeoutError soon where it does not answer."""
    answer = await backend.ask_broker(broker_id, DescribeLogDirsRequest(topics=None), _VERSION, READ_TIMEOUT_MS)
    found = []
    for row in answer.results:
        parts = [part for topic in row.topics for part in topic.partitions]
        size, coming = sum(part.partition_size for part in parts), sum(part.is_future_key for part in parts)
        space = (row.total_bytes, row.usable_bytes)
        level = level_of(backend, row)
        found.append(LogDirRow(row.log_dir, row.error_code, *space, size, len(parts) - coming, coming, level))
    return found
