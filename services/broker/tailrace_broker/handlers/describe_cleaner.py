"""DescribeCleaner v0 (private): how dirty the replicas of a compacted topic here are, and when they were cleaned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import DescribeCleanerRequest, DescribeCleanerResponse

if TYPE_CHECKING:
    from tailrace_broker.compaction.cleaner import Cleaner
    from tailrace_broker.partitions.topics import Topics

_Row = DescribeCleanerResponse.CleanedPartition


async def handle(
    request: DescribeCleanerRequest, context: Context, topics: Topics, cleaner: Cleaner
) -> DescribeCleanerResponse:
    """A row per replica whose log is open and compacted; a log that nobody used since the start has none."""
    row = topics.by_id.get(request.topic_id.bytes) if request.topic_id is not None else None
    if row is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    rows = []
    for index, partition in sorted(row.partitions.items()):
        ratio = cleaner.dirty_ratio(partition)
        if ratio is None or partition.opened is None:
            continue
        place = (partition.topic_id, index)
        rows.append(
            _Row(
                partition_index=index,
                dirty_ratio=ratio,
                cleaned_offset=partition.opened.cleaned_offset,
                last_cleaned_ms=cleaner.stats.last_cleaned_ms.get(place, -1),
                uncleanable=cleaner.stats.uncleanable.get(place),
            )
        )
    return DescribeCleanerResponse(error_code=0, partitions=rows)
