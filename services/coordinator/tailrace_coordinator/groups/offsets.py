"""Committed offsets: commit, fetch, delete, expire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from tailrace.coordination.group_records import OffsetCommitted, OffsetRemoved
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.metadata.image import MetadataImage
from tailrace.state import EndOfTransaction, InTransaction, ProducerIdAndEpoch
from tailrace_coordinator.groups.decision import GroupDecision
from tailrace_coordinator.groups.group import Committer, Group
from tailrace_coordinator.groups.pending_offsets import PendingOffsets

_NEVER_MS = 2**63 - 1  # the latest time that a record can hold


class Offsets:
    """The committed offsets of one shard, by group."""

    __slots__ = ("_by_group", "changes", "pending")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, OffsetCommitted]] = {}
        self.changes = 0  # a report looks for what has moved where it grew
        self.pending = PendingOffsets()

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitted | None:
        return self._by_group.get(group_id, {}).get((topic, partition))

    def of_group(self, group_id: str) -> Mapping[TopicPartition, OffsetCommitted]:
        return self._by_group.get(group_id, {})

    def __iter__(self) -> Iterator[OffsetCommitted]:
        return (offset for offsets in self._by_group.values() for offset in offsets.values())

    def __len__(self) -> int:
        return sum(len(offsets) for offsets in self._by_group.values())

    def apply(self, record: OffsetCommitted | OffsetRemoved) -> None:
        """Sets or forgets one offset."""
        self.changes += 1
        key = (record.topic, record.partition)
        if isinstance(record, OffsetCommitted):
            self._by_group.setdefault(record.group_id, {})[key] = record
            self.pending.written(record.group_id, *key)
            return
        self.pending.removed(record.group_id, *key)
        offsets = self._by_group.get(record.group_id)
        if offsets is not None:
            offsets.pop(key, None)
            if not offsets:
                del self._by_group[record.group_id]

    def end(self, end: EndOfTransaction) -> None:
        """What the transaction wrote counts from now on, or goes."""
        self.changes += 1
        for offset in self.pending.end(end.producer.producer_id, committed=end.committed):
            self._by_group.setdefault(offset.group_id, {})[offset.topic, offset.partition] = offset


def is_of_another_topic(image: MetadataImage, offset: OffsetCommitted) -> bool:
    """Whether an offset was committed for a topic that was deleted, and whose name another topic has now."""
    topic = image.topic(offset.topic)
    return topic is not None and offset.topic_id is not None and offset.topic_id != topic.topic_id


@dataclass(frozen=True, slots=True)
class CommitHeader:
    """What OffsetCommit says beside its offsets; generation_id -1 with no member: a standalone consumer or an admin."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    api_version: int
    retention_time_ms: int = -1


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    """One offset to commit."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: UUID | None = None


def commit(
    decision: GroupDecision,
    groups: Mapping[str, Group],
    request: CommitHeader,
    positions: Sequence[OffsetToCommit],
    producer: ProducerIdAndEpoch | None = None,
) -> list[ErrorCode]:
    """Decides an OffsetCommit, a TxnOffsetCommit if there is a producer; returns one code per position.

    A group that does not exist comes into being with the records (a "simple consumer group"). Raises ApiError when the
    whole request is refused.
    """
    group = groups.get(request.group_id)
    who = Committer(
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        producer is not None,
        request.api_version,
    )
    if group is not None:
        group.validate_offset_commit(decision, who, ((each.topic_id, each.partition) for each in positions))
    elif request.generation_id >= 0:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND if who.by_epoch else ErrorCode.ILLEGAL_GENERATION)
    expire_timestamp_ms = -1
    if request.retention_time_ms != -1:
        expire_timestamp_ms = min(decision.now_ms + request.retention_time_ms, _NEVER_MS)
    codes = []
    for position in positions:
        metadata = position.metadata or ""
        if len(metadata) > decision.config.offset_metadata_max_bytes:
            codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        codes.append(ErrorCode.NONE)
        committed = OffsetCommitted(
            request.group_id,
            position.topic,
            position.partition,
            position.offset,
            position.leader_epoch,
            metadata,
            decision.now_ms,
            expire_timestamp_ms,
            position.topic_id,
        )
        decision.append(committed if producer is None else InTransaction(producer, committed))
    return codes


def delete(decision: GroupDecision, group: Group, offsets: Offsets, topic: str, partition: int) -> ErrorCode:
    """Deletes one offset unless a living consumer group reads its topic; deleting what is not there succeeds."""
    if group.is_subscribed_to(topic):
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    pending = (topic, partition) in offsets.pending.of_group(group.group_id)
    if pending or offsets.get(group.group_id, topic, partition) is not None:
        decision.append(OffsetRemoved(group.group_id, topic, partition))
    return ErrorCode.NONE


def expire(decision: GroupDecision, group: Group, offsets: Offsets) -> bool:
    """Removes what offsets.retention.minutes has outlived (KIP-211). True: the group has no offsets any more.

    What an open transaction writes again stays.
    """
    held = offsets.of_group(group.group_id)
    pending = offsets.pending.of_group(group.group_id)
    expired = [
        offset
        for offset in held.values()
        if _is_expired(decision, group, offset) and (offset.topic, offset.partition) not in pending
    ]
    for offset in expired:
        decision.append(OffsetRemoved(offset.group_id, offset.topic, offset.partition))
    return len(expired) == len(held) and not pending


def remove_of_topics(decision: GroupDecision, offsets: Iterable[OffsetCommitted], deleted: Mapping[str, UUID]) -> None:
    """Removes those of deleted topics; those of a new topic of the same name have another id and stay."""
    for offset in offsets:
        if offset.topic in deleted and offset.topic_id in (None, deleted[offset.topic]):
            decision.append(OffsetRemoved(offset.group_id, offset.topic, offset.partition))


def _is_expired(decision: GroupDecision, group: Group, offset: OffsetCommitted) -> bool:
    begins_ms = group.retention_begins_ms(offset)
    if begins_ms is None:
        return False
    if offset.expire_timestamp_ms != -1:
        return decision.now_ms >= offset.expire_timestamp_ms
    return decision.now_ms - begins_ms >= decision.config.offsets_retention_ms
