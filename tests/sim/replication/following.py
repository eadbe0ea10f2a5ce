"""A simulated broker as a follower: one fetch at a time for each partition, from whom the image calls its leader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.replication.checker import TOPIC
from tailrace.errors import ApiError
from tailrace_broker.partitions.partition import Fetched, FetchPosition

if TYPE_CHECKING:
    from sim.replication.brokers import Broker

ASK_MS = 600


@dataclass(slots=True)
class FollowerFetch:
    """One partition of a follower's fetch."""

    partition: int
    leader_epoch: int
    broker_id: int
    broker_epoch: int
    position: FetchPosition


class Following:
    """The fetch loops of one life."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._fetching: set[int] = set()

    def begin(self, index: int) -> None:
        """Fetches the partition for as long as this broker follows in it."""
        if index not in self._fetching:
            self._fetching.add(index)
            self._fetch(index)

    def _fetch(self, index: int) -> None:
        """An answer counts only while leader, epoch and position are those of its request."""
        broker = self.broker
        replica = broker.partitions.get(index)
        if replica is None or not replica.following or replica.opened is None:
            self._fetching.discard(index)
            return
        leader, leader_epoch, position = replica.leader, replica.leader_epoch, replica.position()
        request = FollowerFetch(index, leader_epoch, broker.broker_id, broker.broker_epoch, position)

        def fetched(answer: Fetched | None) -> None:
            same = (replica.leader, replica.leader_epoch, replica.position()) == (leader, leader_epoch, position)
            failed = answer is None or bool(answer.error_code)
            if answer is not None and same and broker.partitions.get(index) is replica:
                try:
                    replica.fetched(answer, broker.wall_ms())
                except (ApiError, OSError) as refused:
                    broker.say(f"cannot take what {leader} answered for {TOPIC}-{index}: {refused!r}")
                    failed = True
                if answer.diverging is not None:
                    broker.say(f"truncates {TOPIC}-{index} to {replica.log.log_end_offset}: {answer.diverging}")
            broker.after(broker.backoff_ms() if failed else 0.0, self._fetch, index)

        target = broker.brokers[leader]
        broker.network.call(broker, target, target.on_follower_fetch, request, fetched, ASK_MS)
