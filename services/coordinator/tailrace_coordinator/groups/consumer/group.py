"""A group of the consumer protocol (KIP-848) that Apache Kafka wrote.

Its members are not read, so it is always empty; they join again. The first JoinGroup puts a classic group in its place,
as Kafka does with an empty one.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.coordination.consumer_group_records import (
    ConsumerGroupKey,
    ConsumerGroupMetadata,
    ConsumerGroupRecord,
    ConsumerGroupRecordRemoved,
)
from tailrace.coordination.group_records import GroupRecord, OffsetCommitted
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.consumer_protocol import PROTOCOL_TYPE
from tailrace_coordinator.groups.decision import GroupDecision, TimerKey
from tailrace_coordinator.groups.group import Committer, Group, GroupDescription, GroupType


class ConsumerGroup(Group):
    """`keys` are of all records that the log has of it: each needs a tombstone one day."""

    __slots__ = ("keys",)

    group_type = GroupType.CONSUMER
    state = "Empty"
    shown_protocol_type = PROTOCOL_TYPE
    member_count = 0
    is_empty = True
    is_disused = True

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.keys = set[ConsumerGroupKey]()

    def apply(self, record: ConsumerGroupRecord) -> None:
        """Notes what the log has of it."""
        if isinstance(record, ConsumerGroupRecordRemoved):
            self.keys.discard(record.key)
        else:
            self.keys.add(record.key)

    def describe(self) -> GroupDescription:
        return GroupDescription(self.group_id, self.state, PROTOCOL_TYPE, "")

    def validate_offset_commit(self, decision: GroupDecision, who: Committer) -> None:
        if who.generation_id >= 0:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is not None or member_epoch >= 0:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    def validate_offset_delete(self) -> None:
        return

    def validate_delete(self) -> None:
        return

    def is_subscribed_to(self, topic: str) -> bool:
        return False

    def retention_begins_ms(self, offset: OffsetCommitted) -> int | None:
        return offset.commit_timestamp_ms

    def tombstones(self) -> Sequence[GroupRecord]:
        """One for each record in the log: compaction may else forget a later tombstone, and not the record.

        The highest key types first, the group's own last: Kafka refuses to load a log with any other order.
        """
        keys = {*self.keys, ConsumerGroupKey(ConsumerGroupMetadata.key_type, self.group_id)}
        return [ConsumerGroupRecordRemoved(key) for key in sorted(keys, key=_order, reverse=True)]

    def on_loaded(self, decision: GroupDecision) -> None:
        return

    def timer_keys(self) -> Sequence[TimerKey]:
        return ()


def _order(key: ConsumerGroupKey) -> tuple[int, str]:
    return key.key_type, key.name or ""
