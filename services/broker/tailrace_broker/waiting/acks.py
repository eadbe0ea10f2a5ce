"""Produce requests that were appended and wait: acks=all for the high watermark (KIP-497), acks=1 for flush.messages.

The connection's later requests go on meanwhile; answers leave in request order all the same. One advance of a high
watermark settles every request below it and writes once to each connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.transport.answering import Promised
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.produce.request import PartitionAppend, ProduceAnswer


class AcksWait:
    """One request; done when each of its partitions is committed, refused or out of time."""

    __slots__ = ("_all", "_answer", "_encode", "_open", "connection", "done", "slot")

    def __init__(
        self,
        encode: Callable[[Any, ProduceAnswer], bytes],
        slot: Promised,
        connection: Any,
        answer: ProduceAnswer,
        acks: int,
    ) -> None:
        self._encode = encode
        self._all = acks == -1
        self._answer = answer
        self._open: set[PartitionAppend] = set()
        self.slot = slot
        self.connection = connection
        self.done = False

    def begin(self) -> bool:
        """Queues at every partition that has not committed yet; True if none has to be waited for."""
        for _, appends in self._answer.topics:
            for append in appends:
                partition = append.partition
                if append.error_code or partition is None:
                    continue
                last_offset = append.appended.last_offset
                committed = not self._all or partition.high_watermark > last_offset
                if committed and self._all:
                    judge(partition, append)
                # What a killed broker appended may be committed, sent again, and on no disk yet.
                if append.error_code or (committed and partition.durable_end > last_offset):
                    continue
                acks = partition.syncs if committed else partition.acks
                # A repeated batch lies further back; it waits for what is queued already.
                acks.line_up(last_offset + 1, (self, append))
                self._open.add(append)
        if not self._open:
            self.finish()
        return self.done

    def settled(self, append: PartitionAppend) -> bool:
        """One partition is done; True if that was the last and the answer is written into its slot."""
        if self.done or append not in self._open:
            return False
        self._open.discard(append)
        if self._open:
            return False
        self.finish()
        return True

    def finish(self) -> None:
        """Encodes the answer; the connection sends it with its next flush."""
        self.done = True
        self.slot.answer = [self._encode(self.connection, self._answer)]

    def try_complete(self, key: Any) -> None:
        """Nothing to look at: partitions settle what waits for them."""

    def expire(self) -> None:
        """The request's own timeout: what is not committed by now is REQUEST_TIMED_OUT, though it may still be."""
        partitions = set()
        for append in self._open:
            append.error_code = ErrorCode.REQUEST_TIMED_OUT
            partitions.add(append.partition)
        self._open.clear()
        self.finish()
        for partition in partitions:
            assert partition is not None
            for queue in (partition.acks, partition.syncs):
                while queue and queue[0][1][0].done:
                    queue.popleft()
        self.connection.flush()


def judge(partition: Partition, append: PartitionAppend | _Mark) -> None:
    """It has what it waited for; but acks=all promises min.insync.replicas copies."""
    if not partition.enough_replicas:
        append.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def settle(partition: Partition) -> None:
    """The high watermark or the flushed end moved: answers what they have passed."""
    connections = set()
    for queue, mark in ((partition.acks, partition.high_watermark), (partition.syncs, partition.durable_end)):
        while queue and queue[0][0] <= mark:
            wait, append = queue.popleft()[1]
            if not wait.done:
                if queue is partition.acks:
                    judge(partition, append)
                if wait.settled(append):
                    connections.add(wait.connection)
    for connection in connections:
        connection.flush()


def refuse(partition: Partition, code: ErrorCode) -> None:
    """Nobody here can promise what waits: the leader is another, the partition is gone, or the disk failed."""
    waiting = [*partition.acks, *partition.syncs]
    partition.acks.clear()
    partition.syncs.clear()
    connections = set()
    for _, (wait, append) in waiting:
        if not wait.done:
            append.error_code = code
            if wait.settled(append):
                connections.add(wait.connection)
    for connection in connections:
        connection.flush()


class _Mark:
    """What a CommitWait queues with; shaped like a produce request's append."""

    __slots__ = ("error_code",)

    def __init__(self) -> None:
        self.error_code = 0


class CommitWait:
    """One append of our own (a barrier) that must be committed."""

    def __init__(self) -> None:
        self.done = False
        self.connection = None
        self.future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def settled(self, mark: _Mark) -> bool:
        """Passes the outcome on; there is no connection to flush."""
        self.done = True
        if not self.future.done():
            self.future.set_result(mark.error_code)
        return False


async def committed(partition: Partition, offset: int, timeout_ms: float) -> None:
    """Returns when offset is below the high watermark.

    Raises ApiError REQUEST_TIMED_OUT, NOT_LEADER_OR_FOLLOWER or NOT_ENOUGH_REPLICAS_AFTER_APPEND.
    """
    if partition.high_watermark > offset:
        return
    wait = CommitWait()
    partition.acks.line_up(offset + 1, (wait, _Mark()))
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            code = await wait.future
    except TimeoutError:
        code = int(ErrorCode.REQUEST_TIMED_OUT)
    finally:
        wait.done = True
    if code:
        raise ApiError(ErrorCode(code))


async def all_committed(appended: Sequence[tuple[Partition, int]], timeout_ms: float) -> list[int]:
    """Waits for an offset of each partition, all of them together; error codes as of committed, and 0."""
    waits: list[tuple[Partition, CommitWait | None]] = []
    for partition, offset in appended:
        wait = None
        if partition.high_watermark <= offset:
            wait = CommitWait()
            partition.acks.line_up(offset + 1, (wait, _Mark()))
        waits.append((partition, wait))
    futures = [wait.future for _, wait in waits if wait is not None]
    try:
        if futures:
            await asyncio.wait(futures, timeout=timeout_ms / 1000)
    finally:
        for _, wait in waits:
            if wait is not None:
                wait.done = True
    return [_outcome(partition, wait) for partition, wait in waits]


def _outcome(partition: Partition, wait: CommitWait | None) -> int:
    if wait is None:
        return int(ErrorCode.NONE if partition.enough_replicas else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    return wait.future.result() if wait.future.done() else int(ErrorCode.REQUEST_TIMED_OUT)
