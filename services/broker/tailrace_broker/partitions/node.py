"""What every replica of one broker knows of its own node and of the others. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tailrace.metadata.image import BrokerImage

NO_EPOCH = -1


class Node:
    """One broker's surroundings; the shell replaces `brokers` with every image and sets the epoch once registered."""

    __slots__ = (
        "broker_epoch",
        "brokers",
        "changed",
        "leads_alone",
        "leads_shared",
        "monotonic_ms",
        "node_id",
        "replica_lag_time_max_ms",
    )

    def __init__(
        self, node_id: int, monotonic_ms: Callable[[], float], replica_lag_time_max_ms: float = 30_000
    ) -> None:
        self.node_id = node_id
        self.broker_epoch = NO_EPOCH
        self.brokers: Mapping[int, BrokerImage] = {}
        self.monotonic_ms = monotonic_ms
        self.replica_lag_time_max_ms = replica_lag_time_max_ms
        # After an unclean start neither, until the image knows this life: see Topics.hold_back.
        self.leads_shared = True  # what others have replicas of
        self.leads_alone = True  # what nobody else has; also once no controller was reached
        # Partitions whose log or high watermark is not what housekeeping saw last, so that it looks at no others.
        self.changed: set[object] = set()

    def take_changed(self) -> set[Any]:
        """What changed since the last call."""
        changed, self.changed = self.changed, set()
        return changed

    def may_lead(self, replicas: Sequence[int]) -> bool:
        """Whether this life of the broker may lead what the image gives it."""
        return self.leads_alone if len(replicas) == 1 else self.leads_shared

    def is_alive(self, broker_id: int) -> bool:
        """Whether the broker is registered and not fenced."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def may_join(self, broker_id: int, broker_epoch: int) -> bool:
        """KIP-841 and KIP-903: only a live broker that is not leaving, in the life that fetched, may be in sync."""
        broker = self.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            return False
        return broker_epoch in (NO_EPOCH, broker.broker_epoch)
