"""A classic group and its members.

Membership during a rebalance is soft state, as in Kafka: decisions change it at once and it dies with the shard. What
must survive (generation, members, assignments) changes through `GroupMetadata` records only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from uuid import UUID

from tailrace.coordination.group_records import (
    GroupMetadata,
    GroupRecord,
    GroupRemoved,
    MemberMetadata,
    OffsetCommitted,
    encoded,
)
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.consumer_protocol import PROTOCOL_TYPE, read_topics
from tailrace.state import Token
from tailrace_coordinator.groups.classic.member import Member, Protocols
from tailrace_coordinator.groups.decision import GroupDecision, TimerKey, heartbeat_key, join_key, loaded_key, sync_key
from tailrace_coordinator.groups.group import Committer, Group, GroupDescription, GroupType

_MOST_TOPICS = 20_000  # of all subscriptions that differ


class GroupState(StrEnum):
    """Kafka's names, as DescribeGroups and ListGroups spell them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroup(Group):
    """Members in the order they came; previous_state tells an initial rebalance from a later one."""

    __slots__ = (
        "awaiting_join_count",
        "current_state_timestamp_ms",
        "generation_id",
        "initial_delay",
        "known_topics_of",
        "leader",
        "members",
        "metadata_size_bytes",
        "new_member_added",
        "pending_members",
        "pending_sync_members",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "speakers",
        "state",
        "static_members",
        "subscribed_topics",
    )

    group_type = GroupType.CLASSIC
    state: GroupState

    def __init__(self, group_id: str, now_ms: int | None = None) -> None:
        super().__init__(group_id)
        self.state = self.previous_state = GroupState.EMPTY
        self.current_state_timestamp_ms = now_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.awaiting_join_count = 0  # counted along: each JoinGroup of thousands would look at all members
        self.speakers: Counter[str] = Counter()  # members by protocol they speak
        self.metadata_size_bytes = 0  # of all members, under all protocols
        self.static_members: dict[str, str] = {}
        self.pending_members: set[str] = set()  # were given an id and have not joined with it (KIP-394)
        self.pending_sync_members: dict[str, None] = {}
        self.new_member_added = False
        self.initial_delay: tuple[int, int] | None = None  # (delay_ms, remaining_ms) of the initial rebalance
        self.subscribed_topics: AbstractSet[str] | None = None  # None: not known
        self.known_topics_of: str | None = None  # the protocol under which they were read; None: to be read again

    @property
    def can_rebalance(self) -> bool:
        return self.state in (GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE)

    @property
    def all_members_joined(self) -> bool:
        return not self.pending_members and self.awaiting_join_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def current_state_timestamp_or_default_ms(self) -> int:
        return -1 if self.current_state_timestamp_ms is None else self.current_state_timestamp_ms

    @property
    def is_downgraded(self) -> bool:
        """Whether it was a consumer group and has not been rebalanced since: its record has no timestamp.

        Nor has one of Kafka before 2.1, for which a rebalance does no harm.
        """
        is_undated = self.state is GroupState.STABLE and self.current_state_timestamp_ms is None
        return is_undated and self.protocol_type == PROTOCOL_TYPE

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        self.previous_state, self.state = self.state, state
        self.current_state_timestamp_ms = now_ms

    def add(self, member: Member) -> None:
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        self.awaiting_join_count += member.awaiting_join is not None
        self.pending_members.discard(member.member_id)

    def await_join(self, member: Member, token: Token | None) -> None:
        """Notes who is to be answered when the join phase ends; None: nobody any more."""
        self.awaiting_join_count += (token is not None) - (member.awaiting_join is not None)
        member.awaiting_join = token

    def update_protocols(self, member: Member, protocols: Protocols) -> None:
        """Lets a member say something else of itself."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def _count(self, member: Member, sign: int) -> None:
        self.known_topics_of = None
        for name in dict(member.protocols):
            count = self.speakers[name] + sign
            if count:
                self.speakers[name] = count
            else:
                del self.speakers[name]
        self.metadata_size_bytes += sign * member.metadata_size_bytes

    def remove(self, member_id: str) -> None:
        """Forgets a member or a pending one; the oldest other member leads when the leader goes."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            self.awaiting_join_count -= member.awaiting_join is not None
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_sync_members.pop(member_id, None)

    def validate_member(self, member_id: str, group_instance_id: str | None) -> Member:
        """Returns the member, or refuses as KIP-345 says."""
        if group_instance_id is not None:
            existing = self.static_members.get(group_instance_id)
            if existing is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if existing != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def candidate_protocols(self) -> frozenset[str]:
        """Returns the protocols every member speaks."""
        first = next(iter(self.members.values()), None)
        return frozenset() if first is None else frozenset(filter(self._is_spoken_by_all, dict(first.protocols)))

    def _is_spoken_by_all(self, protocol: str) -> bool:
        return self.speakers[protocol] == len(self.members)

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether somebody with these protocols could be a member."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        is_spoken = not self.members or any(self._is_spoken_by_all(name) for name, _ in protocols)
        return self.protocol_type == protocol_type and bool(protocols) and is_spoken

    def select_protocol(self) -> str:
        """Returns the protocol with the most first votes; between equals the one voted for first."""
        candidates = self.candidate_protocols()
        if len(candidates) == 1:
            return next(iter(candidates))
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def elect_joined_leader(self) -> bool:
        """Keeps a leader that rejoined, else makes one of a member that did. False: nobody rejoined."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join is not None:
            return True
        joined = next((m.member_id for m in self.members.values() if m.awaiting_join is not None), None)
        self.leader = joined or self.leader
        return joined is not None

    def replace_static_member(self, old_member_id: str, new_member_id: str) -> Member:
        """Gives a static member's place, assignment and leadership to a new member id (KIP-345)."""
        member = self.members.pop(old_member_id)
        assert member.group_instance_id is not None
        self._count(member, -1)
        member.member_id = new_member_id
        self._count(member, 1)
        self.await_join(member, None)
        member.awaiting_sync = None
        member.is_new = False
        self.members[new_member_id] = member
        if self.leader == old_member_id:
            self.leader = new_member_id
        if old_member_id in self.pending_sync_members:
            del self.pending_sync_members[old_member_id]
        self.static_members[member.group_instance_id] = new_member_id
        return member

    def learn_subscribed_topics(self) -> None:
        """Reads the members' subscriptions, as far as they are a consumer's."""
        if self.known_topics_of is not None and self.known_topics_of == self.protocol_name:
            return
        self.subscribed_topics = self._read_subscriptions()
        self.known_topics_of = self.protocol_name

    def _read_subscriptions(self) -> AbstractSet[str] | None:
        if self.protocol_type != PROTOCOL_TYPE:
            return None
        known, left, last = set[str](), _MOST_TOPICS, None
        for member in self.members.values():
            subscription = member.metadata(self.protocol_name)
            if last is not None and subscription.startswith(last):  # most members name the same topics
                continue
            topics, last = read_topics(subscription, left)
            if topics is None:
                return None
            left -= len(topics)
            known.update(topics)
        return known

    def record(self, assignments: Mapping[str, bytes], now_ms: int) -> GroupMetadata:
        """Returns this generation with these assignments as the log keeps it, with its value."""
        members = tuple(
            member.record(self.protocol_name, assignments.get(member.member_id, b""))
            for member in self.members.values()
        )
        record = GroupMetadata(
            self.group_id,
            self.protocol_type or "",
            self.generation_id,
            self.protocol_name,
            self.leader,
            now_ms,
            members,
        )
        return encoded(record)

    def assignments(self) -> dict[str, bytes]:
        """Returns the assignments of this generation by member."""
        return {member.member_id: member.assignment for member in self.members.values()}

    def apply(self, record: GroupMetadata) -> None:
        """Takes a generation from the log; members that live here keep what the log does not say of them."""
        state = GroupState.STABLE if record.members else GroupState.EMPTY
        self.transition_to(state, record.current_state_timestamp_ms)
        if record.current_state_timestamp_ms == -1:
            self.current_state_timestamp_ms = None
        self.generation_id = record.generation_id
        self.protocol_type = record.protocol_type or None
        self.protocol_name = record.protocol
        self.leader = record.leader
        live, members, kept = self.members, dict[str, Member](), 0
        for entry in record.members:
            member = live.get(entry.member_id)
            if member is None or (record.protocol, entry.subscription) not in member.protocols:
                member = _restored(entry, record)
            else:
                kept += 1
            member.assignment = entry.assignment
            members[entry.member_id] = member
        self.members = members
        if not kept == len(live) == len(members):
            self._count_anew()
        self.learn_subscribed_topics()

    def _count_anew(self) -> None:
        self.speakers.clear()
        self.static_members.clear()
        self.metadata_size_bytes = self.awaiting_join_count = 0
        self.known_topics_of = None
        for member in self.members.values():
            self._count(member, 1)
            self.awaiting_join_count += member.awaiting_join is not None
            if member.group_instance_id is not None:
                self.static_members[member.group_instance_id] = member.member_id

    # -- what a group of every kind answers -----------------------------------------------------------------------

    @property
    def shown_protocol_type(self) -> str:
        return self.protocol_type or ""

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_disused(self) -> bool:
        return self.is_empty and not self.pending_members

    @property
    def is_unwritten(self) -> bool:
        """Whether no record tells of it, and nobody is in it or about to be."""
        return self.is_disused and not self.members and self.generation_id == 0

    def describe(self) -> GroupDescription:
        protocol = (self.protocol_name or "") if self.state is GroupState.STABLE else None
        members = tuple(member.describe(protocol) for member in self.members.values())
        return GroupDescription(self.group_id, str(self.state), self.shown_protocol_type, protocol or "", members)

    def validate_offset_commit(
        self, decision: GroupDecision, who: Committer, partitions: Iterable[tuple[UUID | None, int]]
    ) -> None:
        if who.generation_id < 0 and self.state is GroupState.EMPTY:
            return
        if who.generation_id < 0 and not who.member_id and who.group_instance_id is None:
            if who.in_transaction:
                return
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)  # somebody's group is at work: no commit from outside
        member = self.validate_member(who.member_id, who.group_instance_id)
        if who.generation_id != self.generation_id:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        if self.state is GroupState.COMPLETING_REBALANCE and not who.in_transaction:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        decision.schedule(heartbeat_key(self.group_id, who.member_id), member.session_timeout_ms)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """A member of the classic protocol does not say who it is."""

    def validate_offset_delete(self) -> None:
        if self.state is not GroupState.EMPTY and self.protocol_type != PROTOCOL_TYPE:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def validate_delete(self) -> None:
        if self.state is not GroupState.EMPTY:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        """A consumer group whose topics are not known counts as subscribed to all."""
        if self.subscribed_topics is None:
            return self.protocol_type == PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def retention_begins_ms(self, offset: OffsetCommitted) -> int | None:
        if self.protocol_type is None:
            return offset.commit_timestamp_ms
        if self.state is GroupState.EMPTY:
            return self.current_state_timestamp_ms or offset.commit_timestamp_ms
        if self.state is not GroupState.STABLE or self.subscribed_topics is None:
            return None
        return None if offset.topic in self.subscribed_topics else offset.commit_timestamp_ms

    def tombstones(self) -> Sequence[GroupRecord]:
        return [GroupRemoved(self.group_id)]

    def on_loaded(self, decision: GroupDecision) -> None:
        """Starts every member's session again, and a rebalance that is due.

        It is due to a group above group.max.size, to lose the late members, and to one that was downgraded.
        """
        for member in self.members.values():
            decision.schedule(heartbeat_key(self.group_id, member.member_id), member.session_timeout_ms)
        if self.is_downgraded or len(self.members) > decision.config.group_max_size:
            decision.schedule(loaded_key(self.group_id), 0)

    def timer_keys(self) -> Sequence[TimerKey]:
        sessions = [heartbeat_key(self.group_id, member_id) for member_id in (*self.members, *self.pending_members)]
        return [*sessions, join_key(self.group_id), sync_key(self.group_id), loaded_key(self.group_id)]


def _restored(entry: MemberMetadata, record: GroupMetadata) -> Member:
    rebalance_timeout_ms = entry.rebalance_timeout_ms
    return Member(
        entry.member_id,
        entry.group_instance_id,
        entry.client_id,
        entry.client_host,
        entry.session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        entry.session_timeout_ms,
        record.protocol_type,
        ((record.protocol or "", entry.subscription),),
    )
