"""The groups and offsets of one partition of `__consumer_offsets`: every decision, and the one `apply`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import islice

from tailrace.coordination.group_records import (
    ConsumerGroupRecord,
    GroupMetadata,
    GroupRecord,
    GroupRemoved,
    OffsetCommitted,
    OffsetRemoved,
)
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.state import Effects, Token
from tailrace.wire.messages import HeartbeatRequest, SyncGroupRequest
from tailrace_coordinator.groups import describe, offsets
from tailrace_coordinator.groups.classic import join, leave, rebalance, sync
from tailrace_coordinator.groups.classic.group import ClassicGroup, GroupState
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.decision import EXPIRY_KEY, GroupDecision
from tailrace_coordinator.groups.offsets import Commit, Offsets, Position, TopicPartition

GroupEffects = Effects[GroupRecord]
MANY = 500  # offsets: a decision that looks at or changes so many takes some milliseconds


class GroupMachine:
    """Decisions return Effects and may change soft state (who waits to join); records change the rest through apply.

    A refusal is a reply too (an ApiError), so that it waits behind whatever it was decided on.
    """

    __slots__ = ("config", "groups", "offsets")

    def __init__(self, config: GroupConfig) -> None:
        self.config = config
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()

    def __len__(self) -> int:
        return len(self.groups)

    def apply(self, record: GroupRecord) -> None:
        """Changes replicated state; live and in replay alike."""
        match record:
            case GroupMetadata():
                self._group(record.group_id).apply(record)
            case ConsumerGroupRecord():
                self._apply_consumer(record)
            case GroupRemoved():
                self.groups.pop(record.group_id, None)
            case OffsetCommitted():
                self._group(record.group_id)  # a "simple consumer group" comes into being with its first offset
                self.offsets.apply(record)
            case OffsetRemoved():
                self.offsets.apply(record)

    def _apply_consumer(self, record: ConsumerGroupRecord) -> None:
        if record.value is not None:
            group = self._group(record.group_id)
            group.is_consumer = True
            group.consumer_keys.add(record.key)
            return
        gone = self.groups.get(record.group_id)
        if gone is None:
            return
        gone.consumer_keys.discard(record.key)
        if record.removes_the_group and gone.is_consumer:  # else a classic group takes its place
            del self.groups[record.group_id]

    def _group(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id)
        return group

    def join(self, now_ms: int, request: join.Join) -> GroupEffects:
        """Replies a JoinGroupResponse when the join phase ends."""
        decision = GroupDecision(self.config, now_ms)
        created = join.join(decision, self.groups, request)
        if created is not None:
            self.groups[created.group_id] = created
        return decision.effects()

    def sync(
        self, now_ms: int, token: Token, request: SyncGroupRequest, assignments: Mapping[str, bytes]
    ) -> GroupEffects:
        """Replies a SyncGroupResponse when the leader's assignments, by member, are committed."""
        decision = GroupDecision(self.config, now_ms)
        sync.sync(decision, self.groups, token, request, assignments)
        return decision.effects()

    def heartbeat(self, now_ms: int, token: Token, request: HeartbeatRequest) -> GroupEffects:
        """Replies an ErrorCode."""
        return self._answer(now_ms, token, lambda decision: sync.heartbeat(decision, self.groups, request))

    def leave(self, now_ms: int, token: Token, group_id: str, leavers: Sequence[leave.Leaver]) -> GroupEffects:
        """Replies one ErrorCode per leaver."""
        return self._answer(now_ms, token, lambda decision: leave.leave(decision, self.groups, group_id, leavers))

    def commit(self, now_ms: int, token: Token, request: Commit, positions: Sequence[Position]) -> GroupEffects:
        """Replies one ErrorCode per position."""
        return self._answer(now_ms, token, lambda decision: offsets.commit(decision, self.groups, request, positions))

    def fetch_offsets(
        self, now_ms: int, token: Token, group_id: str, wanted: Sequence[TopicPartition] | None
    ) -> GroupEffects:
        """Replies {(topic, partition): OffsetCommitted}, all of the group's for None; unknown ones are absent.

        Where very many are wanted others may be there as well: a copy of all is less work than a look at each.
        """
        held = self.offsets.of_group(group_id)
        if wanted is None or len(wanted) > MANY:
            found = dict(held)
        else:
            found = {key: held[key] for key in wanted if key in held}
        return self._answer(now_ms, token, lambda _: found)

    def delete_offsets(
        self, now_ms: int, token: Token, group_id: str, partitions: Sequence[TopicPartition]
    ) -> GroupEffects:
        """Replies one ErrorCode per partition."""

        def decide(decision: GroupDecision) -> list[ErrorCode]:
            group = offsets.validate_delete(self.groups.get(group_id))
            return [offsets.delete(decision, group, self.offsets, topic, partition) for topic, partition in partitions]

        return self._answer(now_ms, token, decide)

    def delete_groups(self, now_ms: int, token: Token, group_ids: Sequence[str]) -> GroupEffects:
        """Replies {group id: ErrorCode}; a group's offsets go with it, and those of a large one before it.

        Leaves out what is too much for one decision; to be asked again.
        """

        def decide(decision: GroupDecision) -> dict[str, ErrorCode]:
            codes: dict[str, ErrorCode] = {}
            left = MANY
            for group_id in group_ids:
                group = self.groups.get(group_id)
                if group is None:
                    codes[group_id] = ErrorCode.GROUP_ID_NOT_FOUND
                elif group.state is not GroupState.EMPTY:
                    codes[group_id] = ErrorCode.NON_EMPTY_GROUP
                else:
                    held = self.offsets.of_group(group_id)
                    for offset in islice(held.values(), left):
                        decision.append(OffsetRemoved(group_id, offset.topic, offset.partition))
                    if len(held) > left:
                        break
                    left -= len(held)
                    self._remove(decision, group)
                    codes[group_id] = ErrorCode.NONE
            return codes

        return self._answer(now_ms, token, decide)

    def describe_groups(self, now_ms: int, token: Token, group_ids: Sequence[str]) -> GroupEffects:
        """Replies {group id: Described, or None for a group that does not exist}."""
        found = {group_id: self.groups.get(group_id) for group_id in group_ids}
        described = {name: None if group is None else describe.describe(group) for name, group in found.items()}
        return self._answer(now_ms, token, lambda _: described)

    def list_groups(self, now_ms: int, token: Token, states: frozenset[str], types: frozenset[str]) -> GroupEffects:
        """Replies (Listed, ...)."""
        listed = describe.list_groups(self.groups, states, types)
        return self._answer(now_ms, token, lambda _: listed)

    def expire_offsets(self, now_ms: int) -> GroupEffects:
        """Removes expired offsets, and groups that have neither members nor offsets left."""
        decision = GroupDecision(self.config, now_ms)
        self._expire_offsets(decision)
        return decision.effects()

    def _expire_offsets(self, decision: GroupDecision) -> None:
        for group in tuple(self.groups.values()):
            no_offsets = offsets.expire(decision, group, self.offsets)
            if no_offsets and group.state is GroupState.EMPTY and not group.pending_members:
                self._remove(decision, group)

    def on_image(self, now_ms: int, delta: MetadataDelta) -> GroupEffects:
        """Removes the offsets of deleted topics; those of a new topic of the same name have another id and stay."""
        deleted = delta.deleted_topics
        if not deleted:
            return Effects()
        decision = GroupDecision(self.config, now_ms)
        for offset in self.offsets:
            if offset.topic in deleted and offset.topic_id in (None, deleted[offset.topic]):
                decision.append(OffsetRemoved(offset.group_id, offset.topic, offset.partition))
        return decision.effects()

    def on_timer(self, key: Hashable, now_ms: int) -> GroupEffects:
        """A deadline of `decision.py` has passed."""
        decision = GroupDecision(self.config, now_ms)
        match key:
            case ("expiry",):
                self._expire_offsets(decision)
                self._schedule_expiry(decision)
            case ("heartbeat", str(group_id), str(member_id)) if group_id in self.groups:
                rebalance.on_heartbeat_deadline(decision, self.groups[group_id], member_id)
            case ("join", str(group_id)) if group_id in self.groups:
                rebalance.on_join_deadline(decision, self.groups[group_id])
            case ("sync", str(group_id)) if group_id in self.groups:
                rebalance.on_sync_deadline(decision, self.groups[group_id])
        return decision.effects()

    def on_loaded(self, now_ms: int, image: MetadataImage) -> GroupEffects:
        """Starts every member's session anew; a group above group.max.size rebalances to lose the late ones."""
        decision = GroupDecision(self.config, now_ms)
        self._schedule_expiry(decision)
        for group in self.groups.values():
            for member in group.members.values():
                rebalance.reschedule_heartbeat(decision, group, member)
            if len(group.members) > self.config.group_max_size:
                rebalance.prepare(decision, group)
        return decision.effects()

    def _schedule_expiry(self, decision: GroupDecision) -> None:
        decision.schedule(EXPIRY_KEY, self.config.offsets_retention_check_interval_ms)

    def _remove(self, decision: GroupDecision, group: ClassicGroup) -> None:
        rebalance.forget_timers(decision, group)
        rebalance.end_consumer(decision, group)
        decision.append(GroupRemoved(group.group_id))

    def _answer(self, now_ms: int, token: Token, decide: Callable[[GroupDecision], object]) -> GroupEffects:
        decision = GroupDecision(self.config, now_ms)
        try:
            decision.reply(token, decide(decision))
        except ApiError as refusal:
            decision = GroupDecision(self.config, now_ms)
            decision.reply(token, refusal)
        return decision.effects()
