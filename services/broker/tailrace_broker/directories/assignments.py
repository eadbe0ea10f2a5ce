"""Tells the controller in which log directory each replica lies, where the image says otherwise (KIP-858).

With one directory the controller knows by itself, so this is for brokers with several, for a replica that was moved
between them, and for metadata from before anybody kept account.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.directories import UNASSIGNED
from tailrace.net.backoff import Backoff
from tailrace.net.client import Disconnected
from tailrace.wire.malformed import Malformed
from tailrace.wire.messages import AssignReplicasToDirsRequest

_ASK_TIMEOUT_MS = 5000
_AT_ONCE = 2250  # replicas one request names at most, as Kafka's MAX_ASSIGNMENTS_PER_REQUEST
_GONE = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
_Directory = AssignReplicasToDirsRequest.DirectoryData
_Topic = _Directory.TopicData

Replica = tuple[UUID, int]  # (topic id, partition)


class Assignments:
    """What the controller does not know yet; a later word about a replica replaces an earlier one."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        ask_controller: Callable[[Any, float], Awaitable[Any]],
        backoff: Backoff,
        log: FilteringBoundLogger,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._ask = ask_controller
        self._backoff = backoff
        self._log = log
        self._due: dict[Replica, UUID] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def assign(self, replica: Replica, directory_id: UUID) -> None:
        """The replica lies in that directory, and the image says something else."""
        if self._due.get(replica) != directory_id:
            self._due[replica] = directory_id
            self._wake.set()

    def settled(self, replica: Replica) -> None:
        """The image says what is so, or there is no such replica here any more."""
        if self._due:
            self._due.pop(replica, None)

    async def run(self) -> None:
        """Tells until cancelled; backs off while the controller does not take it."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._due and self._broker_epoch() >= 0:
                if await self._send(dict(list(self._due.items())[:_AT_ONCE])):
                    self._backoff.reset()
                else:
                    await self._backoff.wait()

    def begin(self) -> None:
        """The broker has an epoch, so that the controller listens."""
        self._wake.set()

    async def _send(self, due: dict[Replica, UUID]) -> bool:
        """Whether all of it was taken, or is not so any more."""
        try:
            answer = await self._ask(self._request(due), _ASK_TIMEOUT_MS)
        except (Disconnected, TimeoutError, ApiError, Malformed) as failed:
            self._log.warning("the controller was not told of log directories", why=str(failed) or "timed out")
            return False
        if answer.error_code:
            self._log.warning("AssignReplicasToDirs was refused", error=ErrorCode(answer.error_code).name)
            return False
        refused = 0
        for directory in answer.directories:
            for topic in directory.topics:
                for row in topic.partitions:
                    if row.error_code and row.error_code not in _GONE:
                        refused += 1
                    elif self._due.get((topic.topic_id, row.partition_index)) == (directory.id or UNASSIGNED):
                        del self._due[topic.topic_id, row.partition_index]
        return not refused

    def _request(self, due: dict[Replica, UUID]) -> AssignReplicasToDirsRequest:
        by_dir: dict[UUID, dict[UUID, list[int]]] = {}
        for (topic_id, index), directory_id in due.items():
            by_dir.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        return AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                _Directory(
                    id=directory_id,
                    topics=[
                        _Topic(
                            topic_id=topic_id,
                            partitions=[_Topic.PartitionData(partition_index=index) for index in indexes],
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory_id, topics in by_dir.items()
            ],
        )
