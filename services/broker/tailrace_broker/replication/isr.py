"""Takes proposed changes of ISRs to the controller (AlterPartition, KIP-497): one request at a time, many partitions.

While no controller answers, proposals wait: the maximal ISR keeps acks=all honest meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.backoff import Backoff
from tailrace.net.client import Disconnected
from tailrace.wire.codec import Malformed
from tailrace.wire.limits import pages
from tailrace.wire.messages import AlterPartitionRequest, AlterPartitionResponse
from tailrace_broker.partitions.leader import IsrChange

if TYPE_CHECKING:
    from tailrace_broker.metrics import BrokerMetrics
    from tailrace_broker.partitions.node import Node
    from tailrace_broker.partitions.partition import Partition
    from tailrace_broker.partitions.wakeups import WakeUps

_ASK_TIMEOUT_MS = 10_000
_Topic = AlterPartitionRequest.TopicData
_Partition = _Topic.PartitionData


class IsrUpdates:
    """The changes on their way; at most one for each partition."""

    def __init__(
        self,
        node: Node,
        ask_controller: Callable[..., Awaitable[AlterPartitionResponse]],
        wakeups: WakeUps,
        metrics: BrokerMetrics,
        backoff: Backoff,
        log: FilteringBoundLogger,
    ) -> None:
        self._node = node
        self._ask = ask_controller
        self._wakeups = wakeups
        self._metrics = metrics
        self._backoff = backoff
        self._log = log
        self._due: dict[Partition, IsrChange] = {}
        self._wake = asyncio.Event()

    def on_fetch_position(self, partition: Partition) -> None:
        """A follower's position was noted: what it has may be committed now, and it may join the ISR."""
        if partition.advance():
            self._wakeups.committed(partition)
        if partition.deletions:
            partition.settle_deletions()
        change = partition.propose_isr(shrink=False)
        if change is not None:
            self.propose(partition, change)

    def propose(self, partition: Partition, change: IsrChange) -> None:
        """Sends the change with the next request."""
        self._due[partition] = change
        self._wake.set()

    async def run(self) -> None:
        """Sends what is due until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            due, self._due = self._due, {}
            due = {p: change for p, change in due.items() if _stands(p, change)}
            again: dict[Partition, IsrChange] = {}
            for page in pages(list(due.items())):
                again |= await self._send(dict(page))
            if again:
                for partition, change in again.items():
                    self._due.setdefault(partition, change)
                self._wake.set()
                await self._backoff.wait()
            else:
                self._backoff.reset()

    async def _send(self, due: dict[Partition, IsrChange]) -> dict[Partition, IsrChange]:
        """Returns what must be asked for again."""
        try:
            answer = await self._ask(self._request(due), timeout_ms=_ASK_TIMEOUT_MS)
        except (Disconnected, TimeoutError, ApiError, Malformed) as failed:
            self._log.warning("the controller did not take a change of ISRs", why=str(failed) or "timed out")
            return due
        if answer.error_code:
            self._log.warning("AlterPartition was refused", error=ErrorCode(answer.error_code).name)
            return due
        rows = {(topic.topic_id, row.partition_index): row for topic in answer.topics for row in topic.partitions}
        again = {}
        for partition, change in due.items():
            row = rows.get((partition.topic_id, partition.index))
            if row is None or self._answered(partition, change, row):
                again[partition] = change
        return again

    def _answered(
        self, partition: Partition, change: IsrChange, row: AlterPartitionResponse.TopicData.PartitionData
    ) -> bool:
        """Whether the change must be asked for again."""
        before = partition.leading.isr if partition.leading is not None else ()
        again = partition.isr_answered(change, row.error_code, tuple(row.isr), row.partition_epoch)
        metrics = self._metrics
        if row.error_code:
            metrics.failed_isr_updates += 1
            self._log.info(
                "a change of the ISR was refused",
                topic=partition.topic,
                partition=partition.index,
                error=ErrorCode(row.error_code).name,
            )
            return again
        metrics.isr_shrinks += bool(set(before) - set(row.isr))
        metrics.isr_expands += bool(set(row.isr) - set(before))
        if partition.advance():
            self._wakeups.committed(partition)
        return False

    def _request(self, due: dict[Partition, IsrChange]) -> AlterPartitionRequest:
        topics: dict[UUID, list[_Partition]] = {}
        for partition, change in due.items():
            row = _Partition(
                partition_index=partition.index,
                leader_epoch=change.leader_epoch,
                new_isr=[],
                new_isr_with_epochs=[
                    _Partition.BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in change.isr
                ],
                leader_recovery_state=0,
                partition_epoch=change.partition_epoch,
            )
            topics.setdefault(partition.topic_id, []).append(row)
        return AlterPartitionRequest(
            broker_id=self._node.node_id,
            broker_epoch=self._node.broker_epoch,
            topics=[_Topic(topic_id=topic_id, partitions=rows) for topic_id, rows in topics.items()],
        )


def _stands(partition: Partition, change: IsrChange) -> bool:
    """Whether the leadership and the ISR that the change was made for are still what they were."""
    leading = partition.leading
    return (
        leading is not None
        and leading.proposed is not None
        and (leading.leader_epoch, leading.partition_epoch) == (change.leader_epoch, change.partition_epoch)
    )
