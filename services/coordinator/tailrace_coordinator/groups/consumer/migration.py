"""Online migration (`group.consumer.migration.policy`): a classic group becomes a consumer group, and one back.

Either way all members stay, and what they own. All records of it are in one batch of the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from tailrace.coordination.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRecord,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
)
from tailrace.coordination.group_records import GroupRecord, encode
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
    encode_assignment,
    read_assignment,
    read_subscription,
)
from tailrace.metadata.image import MetadataImage
from tailrace.state import RECORD_OVERHEAD_BYTES, EndOfTransaction, InTransaction, size_bytes
from tailrace_coordinator.groups.assignors.spec import Assignment
from tailrace_coordinator.groups.classic import rebalance
from tailrace_coordinator.groups.classic.group import ClassicGroup, GroupState
from tailrace_coordinator.groups.classic.member import Member
from tailrace_coordinator.groups.consumer.group import ConsumerGroup
from tailrace_coordinator.groups.decision import GroupDecision, heartbeat_key
from tailrace_coordinator.groups.group import Groups
from tailrace_coordinator.groups.modern.assignment import Owned, owned_rows, target_rows
from tailrace_coordinator.groups.modern.reconciliation import Current, MemberState
from tailrace_coordinator.groups.modern.topics import metadata_hash

_MALFORMED: Final = "the embedded consumer protocol is malformed"
_CUSTOM_ASSIGNOR: Final = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
    "before re-attempting the upgrade"
)
_TOO_LARGE: Final = "the group is too large for one batch of records"


def upgrade(decision: GroupDecision, groups: Groups, group_id: str) -> ConsumerGroup:
    """Makes a consumer group of a classic one with members, and returns it. Raises ApiError GROUP_ID_NOT_FOUND.

    Its members join or sync again, as they are answered REBALANCE_IN_PROGRESS. validate_upgraded is to follow.
    """
    classic = groups.of_kind(ClassicGroup, group_id)
    if classic is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    _validate_upgrade(decision, classic)
    group = ConsumerGroup(group_id)
    records = _upgraded(decision, classic)
    for key in classic.timer_keys():
        decision.cancel(key)
    rebalance.refuse_all(decision, classic)
    for tombstone in classic.tombstones():
        decision.append(tombstone)
    for record in records:
        group.apply(record)
        decision.append(record)
    decision.keep_whole()
    group.metadata_hash ^= 1  # not the topics' own: what members assigned each other may be of topics as they were
    for member in classic.members.values():
        decision.schedule(heartbeat_key(group_id, member.member_id), member.session_timeout_ms)
    return group


def validate_upgraded(decision: GroupDecision, group_id: str) -> None:
    """Refuses an upgrade that does not fit one batch with what else was decided: the new member, what is assigned.

    Raises ApiError; nothing has changed then.
    """
    effects = decision.effects()
    if not effects.is_whole:
        return
    records = [record for record in effects.records if not isinstance(record, InTransaction | EndOfTransaction)]
    if not _is_one_batch(decision, records):
        raise _no_upgrade(group_id, _TOO_LARGE)


def _no_upgrade(group_id: str, why: str) -> ApiError:
    text = f"Cannot upgrade classic group {group_id} to consumer group because {why}."
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def _validate_upgrade(decision: GroupDecision, classic: ClassicGroup) -> None:
    if not decision.config.upgrades_groups:
        raise _no_upgrade(classic.group_id, "online upgrade is disabled")
    if classic.protocol_type != PROTOCOL_TYPE:
        raise _no_upgrade(classic.group_id, "the group does not use the consumer embedded protocol")
    if len(classic.members) > decision.config.group_consumer_max_size:
        raise _no_upgrade(classic.group_id, "the group size exceeds the consumer group maximum size")
    if _least_bytes(classic) > decision.config.max_record_bytes:  # without a look at 16 MiB of subscriptions
        raise _no_upgrade(classic.group_id, _TOO_LARGE)


def _least_bytes(classic: ClassicGroup) -> int:
    """Three records of each member have its id, and one of them all that it says of itself."""
    said = sum(len(metadata) for member in classic.members.values() for _, metadata in member.protocols)
    of_keys = sum(len(member_id) + len(classic.group_id) + RECORD_OVERHEAD_BYTES for member_id in classic.members)
    return said + 3 * of_keys


def _upgraded(decision: GroupDecision, classic: ClassicGroup) -> list[ConsumerGroupRecord]:
    """The records of the group with its members as they are, in Kafka's order. Raises ApiError."""
    group_id, epoch, image = classic.group_id, classic.generation_id, decision.image
    said = {member_id: _subscription(classic, member) for member_id, member in classic.members.items()}
    targets = {member_id: _target(classic, member, image) for member_id, member in classic.members.items()}
    owned: dict[str, dict[UUID, dict[int, int]]] = {member_id: {} for member_id in said}
    taken = set[tuple[UUID, int]]()
    # A member may own more than it was assigned last, until it hears of that; no other member owns it before.
    reported = ((member_id, by_id(subscription.owned, image)) for member_id, subscription in said.items())
    for member_id, partitions in (*targets.items(), *reported):
        for topic_id, partition in _pairs(partitions):
            if (topic_id, partition) not in taken:
                taken.add((topic_id, partition))
                owned[member_id].setdefault(topic_id, {})[partition] = epoch
    topics = {name for subscription in said.values() for name in subscription.topics}
    return [
        *(_metadata(classic, member, said[member_id]) for member_id, member in classic.members.items()),
        ConsumerGroupMetadata(group_id, epoch, metadata_hash(topics, image, decision.topic_hashes)),
        *(ConsumerGroupTargetAssignmentMember(group_id, name, target_rows(of)) for name, of in targets.items()),
        ConsumerGroupTargetAssignmentMetadata(group_id, epoch),
        *(_current(group_id, member_id, epoch, rows) for member_id, rows in owned.items()),
    ]


def _subscription(classic: ClassicGroup, member: Member) -> ConsumerProtocolSubscription:
    name = classic.protocol_name  # None: the group's first join phase is not over
    subscription = read_subscription(member.protocols[0][1] if name is None else member.metadata(name))
    if subscription is None:
        raise _no_upgrade(classic.group_id, _MALFORMED)
    return subscription


def _target(classic: ClassicGroup, member: Member, image: MetadataImage) -> Assignment:
    """What the member was assigned last, of topics that exist."""
    assignment = read_assignment(member.assignment)
    if assignment is None:
        raise _no_upgrade(classic.group_id, _MALFORMED)
    if assignment.has_user_data:
        raise _no_upgrade(classic.group_id, _CUSTOM_ASSIGNOR)
    return by_id(assignment.partitions, image)


def _metadata(classic: ClassicGroup, member: Member, said: ConsumerProtocolSubscription) -> ConsumerGroupMemberMetadata:
    protocols = tuple(ClassicProtocol(name, metadata) for name, metadata in member.protocols)
    return ConsumerGroupMemberMetadata(
        classic.group_id,
        member.member_id,
        member.group_instance_id,
        said.rack_id,
        member.client_id,
        member.client_host,
        tuple(sorted(set(said.topics))),
        "",
        member.rebalance_timeout_ms,
        None,
        ClassicMemberMetadata(member.session_timeout_ms, protocols),
    )


def _current(group_id: str, member_id: str, epoch: int, owned: Owned) -> ConsumerGroupCurrentMemberAssignment:
    rows = owned_rows(owned)
    return ConsumerGroupCurrentMemberAssignment(group_id, member_id, epoch, epoch, MemberState.STABLE, rows, ())


def _pairs(assignment: Assignment) -> Iterator[tuple[UUID, int]]:
    return ((topic_id, partition) for topic_id, partitions in assignment.items() for partition in partitions)


def by_id(partitions: Mapping[str, frozenset[int]], image: MetadataImage) -> Assignment:
    """Returns partitions that a classic member names, of topics that exist."""
    topics = ((image.topic(name), some) for name, some in partitions.items())
    return {topic.topic_id: some for topic, some in topics if topic is not None}


def downgrade(
    decision: GroupDecision, groups: Groups, group: ConsumerGroup, leaving: Collection[ConsumerGroupMemberMetadata]
) -> bool:
    """Makes a classic group of the members that stay, if all of them are classic. False: it stays as it is.

    They join again, unless each has what it is to have: their heartbeats are answered REBALANCE_IN_PROGRESS.
    """
    gone = {member.member_id for member in leaving}
    staying = [member for member_id, member in group.members.items() if member_id not in gone]
    if not staying or any(member.classic_member_metadata is None for member in staying):
        return False
    if not decision.config.downgrades_groups or len(staying) > decision.config.group_max_size:
        return False
    classic = _downgraded(decision, group, staying)
    if not classic.candidate_protocols():
        return False
    classic.protocol_name = classic.select_protocol()
    for member in classic.members.values():
        subscription = member.metadata(classic.protocol_name)
        member.assignment = classic_assignment(group.current(member.member_id), subscription, decision.image)
    is_settled = all(group.current(member_id).is_reconciled_to(group.group_epoch) for member_id in classic.members)
    is_rebalance_due = bool(leaving) or not is_settled or group.metadata_expired
    # Without a timestamp, which Kafka reads, a coordinator that takes over knows that the rebalance is due.
    record = classic.record(classic.assignments(), -1 if is_rebalance_due else decision.now_ms)
    if not _is_one_batch(decision, [*group.tombstones(), record]):
        return False
    for key in group.timer_keys():
        decision.cancel(key)
    for tombstone in group.tombstones():
        decision.append(tombstone)
    decision.append(record)
    decision.keep_whole()
    groups[group.group_id] = classic  # before the records are applied: the log has one protocol of each member
    for member in classic.members.values():
        rebalance.reschedule_heartbeat(decision, classic, member)
    if is_rebalance_due:
        decision.then(lambda later, known: _rebalance(later, groups, known), classic)
    return True


def _rebalance(decision: GroupDecision, groups: Groups, classic: ClassicGroup) -> None:
    if groups.get(classic.group_id) is classic and classic.state is GroupState.STABLE:
        rebalance.prepare(decision, classic)


def _downgraded(
    decision: GroupDecision, group: ConsumerGroup, members: Sequence[ConsumerGroupMemberMetadata]
) -> ClassicGroup:
    classic = ClassicGroup(group.group_id, decision.now_ms)
    classic.state = GroupState.STABLE
    classic.generation_id = group.group_epoch
    for member in members:
        assert member.classic_member_metadata is not None
        session_timeout_ms, protocols = member.classic_member_metadata
        classic.add(
            Member(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                session_timeout_ms,
                PROTOCOL_TYPE,
                tuple((name, metadata) for name, metadata in protocols),
            )
        )
    return classic


def classic_assignment(current: Current, subscription: bytes, image: MetadataImage) -> bytes:
    """Returns what a member owns as a classic one reads it, in the version of its subscription."""
    said, names = read_subscription(subscription), image.topic_names
    known = sorted(
        (names[topic_id], sorted(owned)) for topic_id, owned in current.assigned.items() if topic_id in names
    )
    pairs = [(name, partition) for name, partitions in known for partition in partitions]
    return encode_assignment(pairs, 0 if said is None else said.version)


def _is_one_batch(decision: GroupDecision, records: Sequence[GroupRecord]) -> bool:
    return sum(size_bytes(encode(record)) for record in records) <= decision.config.max_record_bytes
