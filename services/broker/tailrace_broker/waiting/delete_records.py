"""DeleteRecords waits until every replica has given the records up (KIP-107); bounded by the request's timeout."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tailrace.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tailrace_broker.partitions.partition import Partition


async def trimmed(partition: Partition, offset: int, timeout_ms: float) -> None:
    """Returns when no replica has anything below offset.

    Raises ApiError REQUEST_TIMED_OUT, or NOT_LEADER_OR_FOLLOWER if the partition's leader changes meanwhile.
    """
    if partition.low_watermark >= offset:
        return
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    entry = (offset, future)
    partition.trims.append(entry)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await future
    except TimeoutError:
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT) from None
    finally:
        if entry in partition.trims:
            partition.trims.remove(entry)


def settle(partition: Partition) -> None:
    """A follower was heard: answers what every replica has given up by now."""
    low = partition.low_watermark
    for offset, future in partition.trims:
        if offset <= low and not future.done():
            future.set_result(None)


def refuse(partition: Partition, code: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
    """Another leads from now on, or the disk failed."""
    for _, future in partition.trims:
        if not future.done():
            future.set_exception(ApiError(code))
