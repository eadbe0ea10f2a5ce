"""A group of the consumer protocol (KIP-848) and what the log says of its members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final
from uuid import UUID

from tailrace.coordination.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupKey,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRecord,
    ConsumerGroupRecordRemoved,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
)
from tailrace.coordination.group_records import GroupRecord, OffsetCommitted
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.consumer_protocol import PROTOCOL_TYPE
from tailrace_coordinator.groups.assignors.spec import Assignment
from tailrace_coordinator.groups.consumer.config import consumer_times
from tailrace_coordinator.groups.decision import GroupDecision, TimerKey, heartbeat_key, rebalance_key
from tailrace_coordinator.groups.group import Committer, Group, GroupDescription, GroupType
from tailrace_coordinator.groups.modern.assignment import owned_of, target_of
from tailrace_coordinator.groups.modern.reconciliation import Current, MemberState

LEFT_EPOCH: Final = -1
LEFT_FOR_A_WHILE_EPOCH: Final = -2  # a static member that comes back

_FIRST_EPOCH: Final = 1
_MEMBER_BYTES: Final = 1_000
_TEXT_BYTES: Final = 60


class ConsumerGroup(Group):
    """Members by id: `members` as they joined, `currents` what they own, `targets` what they are to own.

    Only records change these. `metadata_expired`, `assigning_since_ms`, the times of regular expressions and `joining`
    are soft state.

    Members may be of the classic protocol: `classic_count` of them, whose protocols `classic_protocols` counts.
    """

    __slots__ = (
        "assigning_since_ms",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "classic_count",
        "classic_protocols",
        "currents",
        "expressions",
        "group_epoch",
        "joining",
        "keys",
        "members",
        "metadata_expired",
        "metadata_hash",
        "owners",
        "resolution",
        "resolved_topics",
        "size_bytes",
        "static_members",
        "subscribed_topics",
        "targets",
        "used_expressions",
    )

    group_type = GroupType.CONSUMER
    shown_protocol_type = PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.group_epoch = self.assignment_epoch = _FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.metadata_hash = 0
        self.members: dict[str, ConsumerGroupMemberMetadata] = {}
        self.static_members: dict[str, str] = {}
        self.currents: dict[str, Current] = {}
        self.targets: dict[str, Assignment] = {}
        self.owners: dict[UUID, dict[int, str]] = {}
        self.expressions: dict[str, ConsumerGroupRegularExpression] = {}
        self.subscribed_topics: Counter[str] = Counter()  # members by the names that they subscribe to
        self.used_expressions: Counter[str] = Counter()
        self.resolved_topics: Counter[str] = Counter()  # expressions by the names that they match
        self.classic_count = 0
        self.classic_protocols: Counter[str] = Counter()
        self.keys = set[ConsumerGroupKey]()  # of the records that the log has
        self.size_bytes = 0  # of what members say of themselves
        self.metadata_expired = True  # the hash is to be computed anew at the next heartbeat
        self.assigning_since_ms: int | None = None  # when a thread was asked for targets that it has not returned yet
        self.resolution = Resolution()
        self.joining = set[str]()  # classic members that are to join or to sync before their rebalance timeout

    # -- what the log says --------------------------------------------------------------------------------------------

    def apply(self, record: ConsumerGroupRecord) -> None:
        """Takes a record, live and in replay alike."""
        if isinstance(record, ConsumerGroupRecordRemoved):
            self.keys.discard(record.key)
            self._remove(record.key)
            return
        self.keys.add(record.key)
        match record:
            case ConsumerGroupMetadata():
                self.group_epoch, self.metadata_hash = record.epoch, record.metadata_hash
            case ConsumerGroupMemberMetadata():
                self._set_member(record)
            case ConsumerGroupTargetAssignmentMetadata():
                self.assignment_epoch = record.assignment_epoch
                self.assignment_timestamp_ms = record.assignment_timestamp
            case ConsumerGroupTargetAssignmentMember():
                self.targets[record.member_id] = target_of(record.topic_partitions)
            case ConsumerGroupCurrentMemberAssignment():
                self._set_current(record.member_id, _current(record))
            case ConsumerGroupRegularExpression():
                self._set_expression(record.regular_expression, record)

    def _remove(self, key: ConsumerGroupKey) -> None:
        name = key.name or ""
        match key.key_type:
            case ConsumerGroupMemberMetadata.key_type:
                self._forget_member(name)
                self.joining.discard(name)
            case ConsumerGroupTargetAssignmentMember.key_type:
                self.targets.pop(name, None)
            case ConsumerGroupCurrentMemberAssignment.key_type:
                self._set_current(name, None)
            case ConsumerGroupRegularExpression.key_type:
                self._set_expression(name, None)

    def _set_expression(self, expression: str, found: ConsumerGroupRegularExpression | None) -> None:
        before = self.expressions.pop(expression, None)
        if before is not None:
            _take_away(self.resolved_topics, before.topics)
        if found is not None:
            self.expressions[expression] = found
            self.resolved_topics.update(found.topics)

    def _set_member(self, member: ConsumerGroupMemberMetadata) -> None:
        self._forget_member(member.member_id)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.subscribed_topics.update(member.subscribed_topic_names)
        if member.subscribed_topic_regex:
            self.used_expressions[member.subscribed_topic_regex] += 1
        if member.classic_member_metadata is not None:
            self.classic_count += 1
            self.classic_protocols.update(protocol_names(member.classic_member_metadata))
        self.size_bytes += member_size_bytes(member)

    def _forget_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        _take_away(self.subscribed_topics, member.subscribed_topic_names)
        if member.subscribed_topic_regex:
            _take_away(self.used_expressions, (member.subscribed_topic_regex,))
        if member.classic_member_metadata is not None:
            self.classic_count -= 1
            _take_away(self.classic_protocols, protocol_names(member.classic_member_metadata))
        self.size_bytes -= member_size_bytes(member)

    def _set_current(self, member_id: str, current: Current | None) -> None:
        for topic_id, partition in self.current(member_id).partitions():
            owners = self.owners.get(topic_id, {})
            if owners.get(partition) == member_id:
                del owners[partition]
                if not owners:
                    del self.owners[topic_id]
        if current is None:
            self.currents.pop(member_id, None)
            return
        self.currents[member_id] = current
        for topic_id, partition in current.partitions():
            self.owners.setdefault(topic_id, {})[partition] = member_id

    # -- what a member is told ----------------------------------------------------------------------------------------

    def current(self, member_id: str) -> Current:
        """What the member owns; of one that is new, nothing in epoch 0."""
        return self.currents.get(member_id, _NOTHING)

    def is_free(self, topic_id: UUID, partition: int) -> bool:
        """Whether no member owns the partition."""
        return partition not in self.owners.get(topic_id, ())

    def topics_of(self, member: ConsumerGroupMemberMetadata) -> Collection[str]:
        """The names of the topics that the member subscribes to, those of its regular expression among them."""
        return topics_of(member, self.expressions)

    def member(self, member_id: str) -> ConsumerGroupMemberMetadata:
        """Returns the member. Raises ApiError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def supports_protocols(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a classic member with these protocols could be a member: all classic members have one of them."""
        if protocol_type != PROTOCOL_TYPE:
            return False
        return any(self.classic_protocols[name] == self.classic_count for name in names)

    # -- what a group of every kind answers ---------------------------------------------------------------------------

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        epoch = self.assignment_epoch
        is_stable = all(self.current(member_id).is_reconciled_to(epoch) for member_id in self.members)
        return "Stable" if is_stable else "Reconciling"

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_disused(self) -> bool:
        return not self.members

    def describe(self) -> GroupDescription:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a classic group.")

    def validate_offset_commit(
        self, decision: GroupDecision, who: Committer, partitions: Iterable[tuple[UUID | None, int]]
    ) -> None:
        if who.generation_id < 0 and not self.members:
            return
        if who.in_transaction and who.generation_id < 0 and not who.member_id and who.group_instance_id is None:
            return
        if self.member(who.member_id).classic_member_metadata is not None:
            if who.generation_id != self.current(who.member_id).member_epoch:
                raise ApiError(ErrorCode.ILLEGAL_GENERATION)
            return
        if not who.in_transaction and not who.by_epoch:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if not self._may_commit(who, partitions):
            raise ApiError(ErrorCode.STALE_MEMBER_EPOCH if who.by_epoch else ErrorCode.ILLEGAL_GENERATION)

    def _may_commit(self, who: Committer, partitions: Iterable[tuple[UUID | None, int]]) -> bool:
        """Whether the member was in this epoch since it got each of the partitions (KIP-1251)."""
        current, epoch = self.current(who.member_id), who.generation_id
        if epoch == current.member_epoch:
            return True
        if not 0 < epoch < current.member_epoch:
            return False
        for topic_id, partition in partitions:
            got = None if topic_id is None else _epoch_of(current, topic_id, partition)
            if got is None or epoch < got:
                return False
        return True

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        self.member(member_id or "")
        if member_epoch != self.current(member_id or "").member_epoch:
            raise ApiError(ErrorCode.STALE_MEMBER_EPOCH)

    def validate_offset_delete(self) -> None:
        return

    def validate_delete(self) -> None:
        if self.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics or topic in self.resolved_topics

    def retention_begins_ms(self, offset: OffsetCommitted) -> int | None:
        return None if self.is_subscribed_to(offset.topic) else offset.commit_timestamp_ms

    def tombstones(self) -> Sequence[GroupRecord]:
        """One for each record in the log: compaction may else forget a later tombstone, and not the record.

        The highest key types first, the group's own last: Kafka refuses to load a log with any other order.
        """
        keys = {*self.keys, ConsumerGroupKey(ConsumerGroupMetadata.key_type, self.group_id)}
        return [ConsumerGroupRecordRemoved(key) for key in sorted(keys, key=_order, reverse=True)]

    def on_loaded(self, decision: GroupDecision) -> None:
        """Begins the sessions of the members, and the time that they have to give up partitions."""
        session_timeout_ms = consumer_times(decision, self.group_id).session_timeout_ms
        for member_id, member in self.members.items():
            classic = member.classic_member_metadata
            timeout_ms = session_timeout_ms if classic is None else classic.session_timeout_ms
            decision.schedule(heartbeat_key(self.group_id, member_id), timeout_ms)
            if self.current(member_id).state == MemberState.UNREVOKED_PARTITIONS:
                decision.schedule(rebalance_key(self.group_id, member_id), member.rebalance_timeout_ms)

    def on_topics_changed(self, names: AbstractSet[str]) -> None:
        if self.used_expressions:
            self.resolution.topics_changed = True
        if not self.metadata_expired:
            self.metadata_expired = any(map(self.is_subscribed_to, names))

    def timer_keys(self) -> Sequence[TimerKey]:
        keys = (heartbeat_key, rebalance_key)
        return [key(self.group_id, member_id) for member_id in self.members for key in keys]


class Resolution:
    """When the regular expressions of a group were looked up; soft state."""

    __slots__ = ("ended_ms", "started_ms", "topics_changed")

    def __init__(self) -> None:
        self.started_ms: int | None = None  # None: none is under way
        self.ended_ms: int | None = None  # None: none since the group was loaded
        self.topics_changed = False  # topics came or went since it started


_NOTHING: Final = Current()


def _current(record: ConsumerGroupCurrentMemberAssignment) -> Current:
    return Current(
        record.member_epoch,
        record.previous_member_epoch,
        record.state,
        owned_of(record.assigned_partitions),
        owned_of(record.partitions_pending_revocation),
    )


def _epoch_of(current: Current, topic_id: UUID, partition: int) -> int | None:
    for owned in (current.assigned, current.pending_revocation):
        epoch = owned.get(topic_id, {}).get(partition)
        if epoch is not None:
            return epoch
    return None


def _take_away(counter: Counter[str], names: Iterable[str]) -> None:
    for name in names:
        counter[name] -= 1
        if not counter[name]:
            del counter[name]


def topics_of(
    member: ConsumerGroupMemberMetadata, expressions: Mapping[str, ConsumerGroupRegularExpression]
) -> Collection[str]:
    """Returns the names of the topics that a member subscribes to; expressions: those that are resolved."""
    found = expressions.get(member.subscribed_topic_regex or "")
    if found is None:
        return member.subscribed_topic_names
    return {*member.subscribed_topic_names, *found.topics}


def member_size_bytes(member: ConsumerGroupMemberMetadata) -> int:
    """All that a client may make as long as it likes, with room for what holds it."""
    texts = (member.member_id, member.instance_id, member.rack_id, member.client_id, member.subscribed_topic_regex)
    said = sum(map(len, filter(None, texts))) + sum(map(len, member.subscribed_topic_names))
    protocols = () if member.classic_member_metadata is None else member.classic_member_metadata.supported_protocols
    said += sum(2 * _TEXT_BYTES + len(name) + len(metadata) for name, metadata in protocols)
    return _MEMBER_BYTES + said + _TEXT_BYTES * len(member.subscribed_topic_names)


def protocol_names(classic: ClassicMemberMetadata) -> set[str]:
    """The names of the protocols that a classic member has."""
    return {protocol.name for protocol in classic.supported_protocols}


def _order(key: ConsumerGroupKey) -> tuple[int, str]:
    return key.key_type, key.name or ""
