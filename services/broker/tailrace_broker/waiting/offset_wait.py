"""A handler that waits for one offset of one partition: DeleteRecords (KIP-107), a shard's barrier."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from tailrace.errors import ApiError, ErrorCode
from tailrace_broker.waiting.offset_queue import OffsetQueue
from tailrace_broker.waiting.operation import DelayedOperation
from tailrace_broker.waiting.purgatory import Purgatory, Waited

_TOO_FEW = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class Committing(Protocol):
    """What `committed` needs of a partition."""

    high_watermark: int
    commits: OffsetQueue

    @property
    def enough_replicas(self) -> bool:
        """Whether what is committed has as many copies as acks=all promises."""
        ...


class OffsetWait(DelayedOperation):
    """Done when its offset is reached or refused, or its time is up. It is its own key."""

    __slots__ = ("error_code", "future")

    def __init__(self) -> None:
        super().__init__()
        self.error_code: int = ErrorCode.NONE
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def try_complete(self, key: object) -> None:
        self.done = True
        if not self.future.done():  # the client may have left
            self.future.set_result(None)

    def expire(self) -> None:
        self.error_code = ErrorCode.REQUEST_TIMED_OUT
        self.try_complete(self)


async def committed(appended: Sequence[tuple[Committing, int]], purgatory: Purgatory, timeout_ms: float) -> list[int]:
    """Waits until an offset of each partition is below its high watermark, all of them together; an error code each."""
    waits = [OffsetWait() for _ in appended]
    for (partition, offset), wait in zip(appended, waits, strict=True):
        if partition.high_watermark > offset:
            wait.error_code = ErrorCode.NONE if partition.enough_replicas else _TOO_FEW
            wait.try_complete(wait)
        else:
            partition.commits.line_up(offset + 1, wait, wait)
            purgatory.park(wait, (), timeout_ms)
    try:
        await asyncio.gather(*(wait.future for wait in waits))
    finally:
        for (partition, _), wait in zip(appended, waits, strict=True):
            if not wait.done:  # nobody asks any more
                wait.done = True
                partition.commits.sweep()
    return [int(wait.error_code) for wait in waits]


async def reached(queue: OffsetQueue, offset: int, purgatory: Purgatory, timeout_ms: float) -> None:
    """Returns when the offset is reached. Raises ApiError REQUEST_TIMED_OUT, or what the queue is refused with."""
    wait = OffsetWait()
    queue.line_up(offset, wait, wait)
    purgatory.park(wait, (), timeout_ms)
    try:
        await wait.future
    finally:
        wait.done = True
        queue.sweep()
    if wait.error_code:
        raise ApiError(ErrorCode(wait.error_code))


async def news(partition: Waited, purgatory: Purgatory, timeout_ms: float) -> None:
    """Returns when a partition has news (another leader, say), or when the time is up."""
    wait = OffsetWait()
    purgatory.park(wait, (partition,), timeout_ms)
    try:
        await wait.future
    finally:
        wait.done = True
        partition.waiters.discard(wait)
