"""DescribeLogDirs v1-5 (KIP-113). v3: top-level error. v4: total and usable bytes (KIP-827)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tailrace.net.context import Context
from tailrace.wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse

if TYPE_CHECKING:
    from tailrace.log.logs import LogDir
    from tailrace_broker.broker import Broker

_Dir = DescribeLogDirsResponse.DescribeLogDirsResult
_Topic = _Dir.DescribeLogDirsTopic
_Row = _Topic.DescribeLogDirsPartition


async def handle(request: DescribeLogDirsRequest, context: Context, broker: Broker) -> DescribeLogDirsResponse:
    """One entry per log dir; null topics means all, an empty list means none."""
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(
        error_code=0, results=[_describe(log_dir, places, wanted) for log_dir, places in broker.storage.placed()]
    )


def _describe(log_dir: LogDir, places: list[tuple[str, int]], wanted: set[tuple[str, int]] | None) -> Any:
    topics: dict[str, list[Any]] = {}
    for topic, index in places:
        if wanted is None or (topic, index) in wanted:
            size = log_dir.size_bytes(topic, index)
            row = _Row(partition_index=index, partition_size=size, offset_lag=0, is_future_key=False)
            topics.setdefault(topic, []).append(row)
    disk = os.statvfs(log_dir.path)
    return _Dir(
        error_code=0,
        log_dir=log_dir.path,
        topics=[_Topic(name=name, partitions=rows) for name, rows in topics.items()],
        total_bytes=disk.f_blocks * disk.f_frsize,
        usable_bytes=disk.f_bavail * disk.f_frsize,
    )
