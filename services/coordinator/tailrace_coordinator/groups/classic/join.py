"""JoinGroup on a classic group."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.errors import ApiError, ErrorCode
from tailrace.state import Token
from tailrace.wire.limits import MOST_STRING_BYTES
from tailrace.wire.messages import JoinGroupRequest
from tailrace_coordinator.groups.classic.group import ClassicGroup, GroupState
from tailrace_coordinator.groups.classic.member import Member, Protocols
from tailrace_coordinator.groups.classic.rebalance import (
    UNKNOWN_MEMBER,
    fence,
    fits,
    join_refused,
    joined,
    maybe_complete_join,
    members_for_leader,
    prepare,
    prepare_or_complete,
    reschedule_heartbeat,
)
from tailrace_coordinator.groups.decision import GroupDecision, heartbeat_key
from tailrace_coordinator.groups.group import Groups

USUAL_ID_CHARS = 300  # of so many, max_pending_members take a few MB


@dataclass(frozen=True, slots=True)
class Join:
    """One JoinGroup: the request, who sent it, and the random part of the id it may be given."""

    token: Token
    request: JoinGroupRequest
    api_version: int
    client_id: str
    client_host: str
    member_uuid: str

    @property
    def protocols(self) -> Protocols:
        return tuple((protocol.name, bytes(protocol.metadata)) for protocol in self.request.protocols)

    @property
    def new_member_id(self) -> str:
        instance_id = self.request.group_instance_id
        return f"{self.client_id if instance_id is None else instance_id}-{self.member_uuid}"

    @property
    def rebalance_timeout_ms(self) -> int:
        request = self.request
        return int(request.session_timeout_ms if self.api_version == 0 else request.rebalance_timeout_ms)

    def member(self, member_id: str) -> Member:
        return Member(
            member_id,
            self.request.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.request.session_timeout_ms,
            self.request.protocol_type,
            self.protocols,
            awaiting_join=self.token,
            is_new=True,
        )


def validate_join(decision: GroupDecision, request: JoinGroupRequest) -> None:
    """Refuses what needs no group to be refused. Raises ApiError."""
    config = decision.config
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not low <= request.session_timeout_ms <= high:
        raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
    if len(request.protocols) > config.max_protocols:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if any(len(protocol.metadata) > config.max_record_bytes for protocol in request.protocols):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"metadata of more than {config.max_record_bytes} bytes")


def check_new_id(join: Join) -> None:
    """Refuses an id that no record can hold; Apache Kafka has no other word for it. Raises ApiError."""
    if join.request.member_id == UNKNOWN_MEMBER and len(join.new_member_id.encode()) > MOST_STRING_BYTES:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)


def join(decision: GroupDecision, groups: Groups, join: Join) -> ClassicGroup | None:
    """Decides a JoinGroup. Returns a group that is to be created for it, maybe in place of one of another kind."""
    request = join.request
    try:
        validate_join(decision, request)
        check_new_id(join)
    except ApiError as refusal:
        decision.reply(join.token, join_refused(request.member_id, refusal.code))
        return None
    group = groups.of_kind(ClassicGroup, request.group_id)
    is_new_group = group is None
    if group is None:
        if request.member_id != UNKNOWN_MEMBER:
            decision.reply(join.token, join_refused(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
            return None
        group = ClassicGroup(request.group_id, decision.now_ms)
    replaced = groups.get(request.group_id) if is_new_group else None
    if not _has_room(decision, group, join):
        group.remove(request.member_id)
        decision.reply(join.token, join_refused(UNKNOWN_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED))
    elif not group.supports_protocols(request.protocol_type, join.protocols):
        decision.reply(join.token, join_refused(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    elif request.member_id == UNKNOWN_MEMBER:
        for tombstone in replaced.tombstones() if replaced else ():
            decision.append(tombstone)
        _join_new(decision, group, join)
        return group if is_new_group else None
    else:
        _join_known(decision, group, join)
    return None


def _has_room(decision: GroupDecision, group: ClassicGroup, join: Join) -> bool:
    """Existing members may stay up to group.max.size, as Kafka counts: those who wait while a rebalance is prepared."""
    member_id = join.request.member_id
    member = group.members.get(member_id)
    max_size = min(decision.config.group_max_size, decision.config.max_members)
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            has_room = (member is not None and member.awaiting_join is not None) or (
                group.awaiting_join_count < max_size
            )
        case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
            has_room = member is not None or len(group.members) < max_size
        case _:
            has_room = True
    if not has_room:
        return False
    before = 0 if member is None else member.metadata_size_bytes
    after = join.member(member_id or join.new_member_id).metadata_size_bytes
    return group.metadata_size_bytes - before + after <= decision.config.max_group_metadata_bytes


def _join_new(decision: GroupDecision, group: ClassicGroup, join: Join) -> None:
    instance_id, new_member_id = join.request.group_instance_id, join.new_member_id
    if instance_id is not None:
        existing = group.static_members.get(instance_id)
        if existing is not None:
            _replace_static(decision, group, join, existing, new_member_id)
        else:
            _add(decision, group, join, new_member_id)
    elif join.api_version < 4:
        _add(decision, group, join, new_member_id)
    elif not _has_room_for_pending(decision, group, new_member_id):
        decision.reply(join.token, join_refused(UNKNOWN_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED))
    else:  # KIP-394: only who comes back with the id becomes a member
        group.pending_members.add(new_member_id)
        decision.schedule(heartbeat_key(group.group_id, new_member_id), join.request.session_timeout_ms)
        decision.reply(join.token, join_refused(new_member_id, ErrorCode.MEMBER_ID_REQUIRED))


def _has_room_for_pending(decision: GroupDecision, group: ClassicGroup, member_id: str) -> bool:
    pending = group.pending_members
    if len(pending) >= decision.config.max_pending_members:
        return False
    if len(member_id) <= USUAL_ID_CHARS:
        return True
    return len(member_id) + sum(map(len, pending)) <= decision.config.max_group_metadata_bytes


def _add(decision: GroupDecision, group: ClassicGroup, join: Join, member_id: str) -> None:
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.new_member_added = True
    group.add(join.member(member_id))
    # The socket is silent while the JoinGroup is parked, so a client that gave up shows only by not coming back.
    decision.schedule(heartbeat_key(group.group_id, member_id), decision.config.new_member_join_timeout_ms)
    prepare_or_complete(decision, group)


def _join_known(decision: GroupDecision, group: ClassicGroup, join: Join) -> None:
    request = join.request
    if request.member_id in group.pending_members and request.group_instance_id is None:
        _add(decision, group, join, request.member_id)
        return
    try:
        member = group.validate_member(request.member_id, request.group_instance_id)
    except ApiError as refusal:
        decision.reply(join.token, join_refused(request.member_id, refusal.code))
        return
    unchanged = member.protocols == join.protocols
    is_leader = group.leader == member.member_id
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            _update(decision, group, member, join)
        case GroupState.COMPLETING_REBALANCE if unchanged:  # its answer may have been lost
            members = members_for_leader(group) if is_leader else ()
            decision.reply(join.token, joined(group, member.member_id, members))
        case GroupState.STABLE if unchanged and not is_leader:
            # Written once more: a coordinator that was replaced must not take a member back to an older generation.
            decision.append(group.record(group.assignments(), group.current_state_timestamp_or_default_ms))
            decision.reply(join.token, joined(group, member.member_id))
        case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:  # a leader's JoinGroup always means rebalance
            _update(decision, group, member, join)
        case _:
            decision.reply(join.token, join_refused(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))


def _update(decision: GroupDecision, group: ClassicGroup, member: Member, join: Join) -> None:
    _take_over(decision, group, member, join)
    prepare_or_complete(decision, group)


def _take_over(decision: GroupDecision, group: ClassicGroup, member: Member, join: Join) -> None:
    """Lets the newest JoinGroup speak for the member; one still parked from before will get no other answer."""
    if member.awaiting_join is not None:
        decision.reply(member.awaiting_join, join_refused(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
    group.update_protocols(member, join.protocols)
    member.rebalance_timeout_ms = join.rebalance_timeout_ms
    member.session_timeout_ms = join.request.session_timeout_ms
    group.await_join(member, join.token)


def _replace_static(
    decision: GroupDecision, group: ClassicGroup, join: Join, old_member_id: str, new_member_id: str
) -> None:
    """KIP-345: the same instance came back without its id. KIP-814: a leader of v9 is told to skip the assignment."""
    old_leader = group.leader
    fence(decision, group, group.members[old_member_id])
    decision.cancel(heartbeat_key(group.group_id, old_member_id))
    member = group.replace_static_member(old_member_id, new_member_id)
    _take_over(decision, group, member, join)
    reschedule_heartbeat(decision, group, member)
    if group.state is GroupState.STABLE:
        if group.select_protocol() != group.protocol_name:
            prepare_or_complete(decision, group)
            return
        record = group.record(group.assignments(), group.current_state_timestamp_or_default_ms)
        if not fits(decision, record):  # it says more of itself than before: SyncGroup is refused then
            prepare_or_complete(decision, group)
            return
        group.await_join(member, None)
        decision.append(record)
        is_leader = group.leader == new_member_id
        if join.api_version >= 9:
            members = members_for_leader(group) if is_leader else ()
            response = joined(group, new_member_id, members, skip_assignment=is_leader)
        else:  # naming the old leader keeps this member from assigning without the others' metadata
            response = joined(group, new_member_id, leader=old_leader)
        decision.reply(join.token, response)
    elif group.state is GroupState.COMPLETING_REBALANCE:
        prepare(decision, group)  # the leader may be assigning to the old id
    else:
        maybe_complete_join(decision, group)
