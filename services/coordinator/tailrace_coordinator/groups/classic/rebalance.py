"""The rebalance: PreparingRebalance until everybody joined, CompletingRebalance until the leader sent assignments."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from tailrace.coordination.group_records import GroupMetadata, encode
from tailrace.errors import ErrorCode
from tailrace.state import size_bytes
from tailrace_coordinator.groups.classic.group import ClassicGroup, GroupState
from tailrace_coordinator.groups.classic.member import JoinAnswer, JoinedMember, Member, SyncAnswer
from tailrace_coordinator.groups.decision import GroupDecision, heartbeat_key, join_key, sync_key

UNKNOWN_MEMBER = ""


def fits(decision: GroupDecision, record: GroupMetadata) -> bool:
    """Whether a batch of `__consumer_offsets` can hold it. Its value must be known: to make it takes long."""
    assert record.value is not None
    return size_bytes(encode(record)) <= decision.config.max_record_bytes


def join_refused(member_id: str, code: ErrorCode) -> JoinAnswer:
    """Returns the answer to a JoinGroup that says no more than an error."""
    return JoinAnswer(code, member_id)


def members_for_leader(group: ClassicGroup) -> list[JoinedMember]:
    """Returns the members as the leader's JoinGroup answer has them."""
    return [
        JoinedMember(member.member_id, member.group_instance_id, member.metadata(group.protocol_name))
        for member in group.members.values()
    ]


def joined(
    group: ClassicGroup,
    member_id: str,
    members: Sequence[JoinedMember] = (),
    *,
    leader: str | None = None,
    skip_assignment: bool = False,
) -> JoinAnswer:
    """Returns the answer that takes a member into the current generation."""
    return JoinAnswer(
        ErrorCode.NONE,
        member_id,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        leader or group.leader or "",
        skip_assignment,
        members,
    )


def sync_refused(code: ErrorCode) -> SyncAnswer:
    """Returns the answer to a SyncGroup that says no more than an error."""
    return SyncAnswer(code)


def synced(group: ClassicGroup, assignment: bytes) -> SyncAnswer:
    """Returns the answer that hands a member its assignment."""
    return SyncAnswer(ErrorCode.NONE, group.protocol_type, group.protocol_name, assignment)


def reschedule_heartbeat(decision: GroupDecision, group: ClassicGroup, member: Member) -> None:
    """Starts the member's session again."""
    decision.schedule(heartbeat_key(group.group_id, member.member_id), member.session_timeout_ms)


def answer_join(decision: GroupDecision, group: ClassicGroup, member: Member, response: JoinAnswer) -> None:
    """Answers a parked JoinGroup, if there is one."""
    if member.awaiting_join is not None:
        decision.reply(member.awaiting_join, response)
        group.await_join(member, None)


def prepare_or_complete(decision: GroupDecision, group: ClassicGroup) -> None:
    """Begins a rebalance; where one is under way, ends its join phase if this was the last member."""
    if group.can_rebalance:
        prepare(decision, group)
    else:
        maybe_complete_join(decision, group)


def prepare(decision: GroupDecision, group: ClassicGroup) -> None:
    """Enters PreparingRebalance. The first rebalance of a group waits group.initial.rebalance.delay.ms (KIP-134)."""
    if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        refuse_syncs(decision, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync_members.clear()
    decision.cancel(sync_key(group.group_id))
    initial = group.state is GroupState.EMPTY
    group.transition_to(GroupState.PREPARING_REBALANCE, decision.now_ms)
    if initial:
        delay_ms = decision.config.group_initial_rebalance_delay_ms
        group.initial_delay = (delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        decision.schedule(join_key(group.group_id), delay_ms)
    elif group.all_members_joined:
        complete_join(decision, group)
    else:
        decision.schedule(join_key(group.group_id), group.rebalance_timeout_ms)


def refuse_syncs(decision: GroupDecision, group: ClassicGroup, code: ErrorCode) -> None:
    """Answers the members that wait for an assignment; none of a generation that has none is kept."""
    for member in group.members.values():
        if group.state is GroupState.COMPLETING_REBALANCE:
            member.assignment = b""
        if member.awaiting_sync is not None:
            decision.reply(member.awaiting_sync, sync_refused(code))
            member.awaiting_sync = None
            reschedule_heartbeat(decision, group, member)


def refuse_all(decision: GroupDecision, group: ClassicGroup) -> None:
    """Answers all that wait of a group that ends: they are to join the one that takes its place."""
    code = ErrorCode.REBALANCE_IN_PROGRESS
    for member in group.members.values():
        if member.awaiting_join is not None:
            decision.reply(member.awaiting_join, join_refused(member.member_id, code))
        if member.awaiting_sync is not None:
            decision.reply(member.awaiting_sync, sync_refused(code))


def maybe_complete_join(decision: GroupDecision, group: ClassicGroup) -> None:
    """Ends the join phase when all members joined; an initial rebalance always waits for its delay."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.previous_state is not GroupState.EMPTY
        and group.all_members_joined
    ):
        complete_join(decision, group)


def on_join_deadline(decision: GroupDecision, group: ClassicGroup) -> None:
    """The join phase is over, unless it is an initial one that new members may still prolong."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    if group.initial_delay is not None and group.new_member_added and group.initial_delay[1] != 0:
        delay_ms, remaining_ms = group.initial_delay
        group.new_member_added = False
        next_delay_ms = min(decision.config.group_initial_rebalance_delay_ms, remaining_ms)
        group.initial_delay = (next_delay_ms, max(remaining_ms - delay_ms, 0))
        decision.schedule(join_key(group.group_id), next_delay_ms)
        return
    complete_join(decision, group)


def complete_join(decision: GroupDecision, group: ClassicGroup) -> None:
    """Begins the next generation with those who joined; dynamic members that did not are out, static ones stay."""
    decision.cancel(join_key(group.group_id))
    group.initial_delay = None
    members = group.members.values()
    absent = [m.member_id for m in members if m.awaiting_join is None and m.group_instance_id is None]
    _remove(decision, group, absent)
    if not group.members:
        _empty_generation(decision, group)
    elif group.elect_joined_leader():
        _next_generation(decision, group)
    else:  # only static members are left and none of them rejoined: their sessions decide
        decision.schedule(join_key(group.group_id), group.rebalance_timeout_ms)


def _remove(decision: GroupDecision, group: ClassicGroup, member_ids: Sequence[str]) -> None:
    for member_id in member_ids:
        group.remove(member_id)
        decision.cancel(heartbeat_key(group.group_id, member_id))


def _empty_generation(decision: GroupDecision, group: ClassicGroup) -> None:
    group.generation_id += 1
    group.protocol_name = None
    group.pending_sync_members.clear()
    decision.append(group.record({}, decision.now_ms))


def _next_generation(decision: GroupDecision, group: ClassicGroup) -> None:
    group.generation_id += 1
    group.protocol_name = group.select_protocol()
    group.learn_subscribed_topics()
    group.transition_to(GroupState.COMPLETING_REBALANCE, decision.now_ms)
    group.new_member_added = False
    group.pending_sync_members = dict.fromkeys(group.members)
    decision.then(answer_joins, group)


def answer_joins(decision: GroupDecision, group: ClassicGroup) -> None:
    """Takes the members that joined into the generation. Where the next rebalance has begun they have joined that."""
    if group.state is GroupState.PREPARING_REBALANCE:
        return
    for member in group.members.values():
        members = members_for_leader(group) if member.member_id == group.leader else ()
        answer_join(decision, group, member, joined(group, member.member_id, members))
        reschedule_heartbeat(decision, group, member)
        member.is_new = False
    decision.schedule(sync_key(group.group_id), group.rebalance_timeout_ms)


def on_sync_deadline(decision: GroupDecision, group: ClassicGroup) -> None:
    """Expels members that joined and did not send SyncGroup within the rebalance timeout."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync_members:
        return
    _remove(decision, group, tuple(group.pending_sync_members))
    prepare(decision, group)


def on_heartbeat_deadline(decision: GroupDecision, group: ClassicGroup, member_id: str) -> None:
    """A session ended: the member is out, unless its answer is ours to give."""
    if member_id in group.pending_members:
        group.remove(member_id)
        if group.state is GroupState.PREPARING_REBALANCE and group.all_members_joined:
            complete_join(decision, group)
        return
    member = group.members.get(member_id)
    if member is not None and not member.satisfies_heartbeat:
        expel(decision, group, member)
        after_removal(decision, group)


def expel(decision: GroupDecision, group: ClassicGroup, member: Member) -> None:
    """Removes a member; one that still waits to join is told to ask for a new id."""
    decision.cancel(heartbeat_key(group.group_id, member.member_id))
    answer_join(decision, group, member, join_refused(UNKNOWN_MEMBER, ErrorCode.UNKNOWN_MEMBER_ID))
    if member.awaiting_sync is not None:
        decision.reply(member.awaiting_sync, sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)


def after_removal(decision: GroupDecision, group: ClassicGroup) -> None:
    """What a group does that lost a member to its session's end."""
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare(decision, group)
    elif group.state is GroupState.PREPARING_REBALANCE and group.all_members_joined:
        complete_join(decision, group)


def fence(decision: GroupDecision, group: ClassicGroup, member: Member) -> None:
    """Answers the holder of a static member's old id (KIP-345) so that it knows at once."""
    answer_join(decision, group, member, join_refused(member.member_id, ErrorCode.FENCED_INSTANCE_ID))
    if member.awaiting_sync is not None:
        decision.reply(member.awaiting_sync, sync_refused(ErrorCode.FENCED_INSTANCE_ID))
        member.awaiting_sync = None


def on_deadline(decision: GroupDecision, group: ClassicGroup, key: Hashable) -> None:
    """A deadline of the group has passed (the keys of `decision.py`)."""
    match key:
        case ("heartbeat", _, str(member_id)):
            on_heartbeat_deadline(decision, group, member_id)
        case ("join", _):
            on_join_deadline(decision, group)
        case ("sync", _):
            on_sync_deadline(decision, group)
        case ("loaded", _):
            prepare(decision, group)
