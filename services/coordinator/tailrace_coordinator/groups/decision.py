"""One decision of the group machine under way: its effects, its time and its configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tailrace.coordination.group_records import GroupRecord
from tailrace.metadata.image import MetadataImage
from tailrace.state import Decision, Effects, EndOfTransaction, InTransaction, Sweep
from tailrace_coordinator.groups.config import GroupConfig

TimerKey = tuple[str, ...]
Written = GroupRecord | InTransaction[GroupRecord] | EndOfTransaction  # what a decision may append
_Group = TypeVar("_Group")
LOST_AFTER_MS: Final = 30_000  # the shell did not do what a decision wanted done
EXPIRY_KEY: TimerKey = ("expiry",)  # the next look for expired offsets


def heartbeat_key(group_id: str, member_id: str) -> TimerKey:
    """The deadline by which the member must be heard of again."""
    return ("heartbeat", group_id, member_id)


def join_key(group_id: str) -> TimerKey:
    """The end of the join phase."""
    return ("join", group_id)


def sync_key(group_id: str) -> TimerKey:
    """The end of the wait for SyncGroup of every member."""
    return ("sync", group_id)


def rebalance_key(group_id: str, member_id: str) -> TimerKey:
    """The deadline by which a member of a consumer group must have given up partitions."""
    return ("rebalance", group_id, member_id)


def loaded_key(group_id: str) -> TimerKey:
    """The rebalance that a group is due when it is loaded."""
    return ("loaded", group_id)


class GroupDecision(Decision[Written]):
    """Collects the effects of one decision; now_ms is wall time, image the cluster as it is known now.

    topic_hashes: those that decisions have computed of topics in this image.
    """

    __slots__ = ("config", "image", "now_ms", "topic_hashes")

    def __init__(self, config: GroupConfig, now_ms: int, image: MetadataImage, topic_hashes: dict[str, bytes]) -> None:
        super().__init__()
        self.config = config
        self.now_ms = now_ms
        self.image = image
        self.topic_hashes = topic_hashes

    def then(self, decide: Callable[[GroupDecision, _Group], None], group: _Group) -> None:
        """Has more of the group decided once everything that this decision saw is committed, in a turn of its own."""

        def decided(now_ms: int, group: _Group) -> Effects[Written]:
            decision = GroupDecision(self.config, now_ms, self.image, self.topic_hashes)
            decide(decision, group)
            return decision.effects()

        self.act(Sweep((group,), decided))
