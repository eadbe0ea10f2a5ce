"""Who keeps the metadata log, and how far each is: what DescribeQuorum tells (KIP-595, KIP-836).

Controllers are the voters: each may become the active one. Brokers follow the log, as observers do. The active
controller hears of a broker's offset with its heartbeats. Standbys read the database and report to nobody, so the
active one asks them when it is asked itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from tailrace.clock import Clock
from tailrace.errors import ErrorCode
from tailrace.kafka.topics import CLUSTER_METADATA_TOPIC
from tailrace.net.address import Address
from tailrace.net.authentication.secret import Secret
from tailrace.net.client import Client, Disconnected
from tailrace.wire.codec import Malformed
from tailrace.wire.messages import DescribeQuorumRequest, DescribeQuorumResponse

ANSWER_TIMEOUT_MS = 1000


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """Where a replica of the log ended when it was heard last; the times are wall clock, -1 for never."""

    log_end_offset: int = -1
    last_fetch_ms: int = -1
    caught_up_ms: int = -1

    def moved(self, log_end_offset: int, leader_end_offset: int, now_ms: int) -> ReplicaState:
        """After it was heard again."""
        caught_up_ms = now_ms if log_end_offset >= leader_end_offset else self.caught_up_ms
        return ReplicaState(log_end_offset, now_ms, caught_up_ms)


@dataclass(frozen=True, slots=True)
class Standby:
    """One controller that is not active, and where it listens."""

    position: ReplicaState
    listeners: tuple[DescribeQuorumResponse.Node.Listener, ...] = ()


@dataclass
class Quorum:
    """The positions of others, as the active controller knows them."""

    clock: Clock
    own: Address
    controllers: Sequence[Address]
    observers: dict[int, ReplicaState] = field(default_factory=dict)
    standbys: dict[int, Standby] = field(default_factory=dict)
    secret: Secret | None = None
    _asking: asyncio.Task[None] | None = None

    def observed(self, broker_id: int, metadata_offset: int, leader_end_offset: int) -> None:
        """A broker's heartbeat told the last offset it has."""
        known = self.observers.get(broker_id, ReplicaState())
        self.observers[broker_id] = known.moved(metadata_offset + 1, leader_end_offset, self.clock.wall_ms())

    def begin(self) -> None:
        """Another term: what was heard in an earlier one says nothing."""
        self.observers.clear()
        self.standbys.clear()

    async def ask_standbys(self, leader_id: int, leader_end_offset: int) -> None:
        """Hears all that answer in time; what others ask for meanwhile is the same."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_all(leader_id, leader_end_offset))
        await asyncio.shield(self._asking)

    def close(self) -> None:
        """Asks nobody any more."""
        if self._asking is not None:
            self._asking.cancel()

    async def _ask_all(self, leader_id: int, leader_end_offset: int) -> None:
        others = [address for address in self.controllers if address != self.own]
        await asyncio.gather(*(self._ask(address, leader_id, leader_end_offset) for address in others))

    async def _ask(self, address: Address, leader_id: int, leader_end_offset: int) -> None:
        topic = DescribeQuorumRequest.TopicData
        topics = [topic(topic_name=CLUSTER_METADATA_TOPIC, partitions=[topic.PartitionData(partition_index=0)])]
        client = Client(address, f"controller-{leader_id}", login=self.secret)
        try:
            answer = await client.ask(DescribeQuorumRequest(topics=topics), timeout_ms=ANSWER_TIMEOUT_MS)
        except (Disconnected, TimeoutError, Malformed, OSError):
            return  # what was heard last stays, with its time
        finally:
            await client.close()
        if answer.error_code != ErrorCode.NOT_CONTROLLER or not answer.topics:
            return  # another one that takes itself for active, or one that has no log yet
        for voter in answer.topics[0].partitions[0].current_voters:
            if voter.replica_id != leader_id:
                known = self.standbys.get(voter.replica_id, Standby(ReplicaState())).position
                position = known.moved(voter.log_end_offset, leader_end_offset, self.clock.wall_ms())
                listeners = tuple(one for node in answer.nodes for one in node.listeners)
                self.standbys[voter.replica_id] = Standby(position, listeners)
