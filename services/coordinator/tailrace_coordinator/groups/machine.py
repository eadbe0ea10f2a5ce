"""The groups and offsets of one partition of `__consumer_offsets`: every decision, and the one `apply`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import TypeVar
from uuid import UUID

from tailrace.coordination.consumer_group_records import ConsumerGroupMetadata, ConsumerGroupRecordRemoved
from tailrace.coordination.group_records import GroupMetadata, GroupRemoved, OffsetCommitted, OffsetRemoved
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.records.batch import LAST_PRODUCER_EPOCH
from tailrace.state import ROWS_AT_ONCE, Effects, EndOfTransaction, InTransaction, ProducerIdAndEpoch, Sweep, Token
from tailrace.wire.messages import HeartbeatRequest, SyncGroupRequest
from tailrace_coordinator.groups import offsets
from tailrace_coordinator.groups.assignors.spec import GroupAssignment
from tailrace_coordinator.groups.classic import join, leave, rebalance, sync
from tailrace_coordinator.groups.classic.group import ClassicGroup
from tailrace_coordinator.groups.classic.pending import PendingIds
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.consumer import classic_members, describe, expressions, target
from tailrace_coordinator.groups.consumer import heartbeat as consumer_heartbeat
from tailrace_coordinator.groups.consumer import leave as consumer_leave
from tailrace_coordinator.groups.consumer.group import ConsumerGroup
from tailrace_coordinator.groups.decision import EXPIRY_KEY, GroupDecision, Written, heartbeat_key
from tailrace_coordinator.groups.ended_transactions import EndedTransactions, Moment
from tailrace_coordinator.groups.group import Group, GroupDescription, Groups, Leaver
from tailrace_coordinator.groups.offsets import CommitHeader, Offsets, OffsetToCommit

T = TypeVar("T")

GroupEffects = Effects[Written]


def _as_it_is(refused: ApiError) -> object:
    return refused


class GroupMachine:
    """Decisions return Effects and may change soft state (who waits to join); records change the rest through apply.

    A refusal is a reply too (an ApiError), so that it waits behind whatever it was decided on.
    """

    __slots__ = ("config", "ended", "groups", "image", "offsets", "pending_ids", "topic_hashes")

    def __init__(self, config: GroupConfig) -> None:
        self.config = config
        self.image = MetadataImage()
        self.topic_hashes: dict[str, bytes] = {}  # of topics in this image
        self.groups = Groups()
        self.offsets = Offsets()
        self.ended = EndedTransactions()
        self.pending_ids = PendingIds(config.max_pending_bytes)

    def __len__(self) -> int:
        return len(self.groups)

    def apply(self, record: Written) -> None:
        """Changes replicated state; live and in replay alike."""
        match record:
            case GroupMetadata():
                self.groups.make(ClassicGroup, record.group_id).apply(record)
            case ConsumerGroupRecordRemoved():
                self._remove_of_consumer(record)
            case GroupRemoved():
                self.groups.pop(record.group_id, None)
            case OffsetCommitted():
                self._simple_group(record.group_id)
                self.offsets.apply(record)
            case OffsetRemoved():
                self.offsets.apply(record)
            case InTransaction(producer, OffsetCommitted() as offset):  # Kafka writes nothing else in a transaction
                self._simple_group(offset.group_id)
                self.offsets.pending.hold(producer, offset)
            case EndOfTransaction():
                self.ended.note(record)
                self.offsets.end(record)
            case InTransaction():
                pass
            case _:
                self.groups.make(ConsumerGroup, record.group_id).apply(record)

    def _simple_group(self, group_id: str) -> None:
        """Makes the group with its first offset: Kafka's "simple consumer group"."""
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id)

    def _remove_of_consumer(self, record: ConsumerGroupRecordRemoved) -> None:
        """Removes a record of a consumer group; with that of the group itself, which is the last one, the group.

        Offsets that are left are those of a group that a classic one is to replace.
        """
        group_id = record.group_id
        group = self.groups.of_kind(ConsumerGroup, group_id)
        if group is None:
            return
        group.apply(record)
        if record.key.key_type == ConsumerGroupMetadata.key_type:
            del self.groups[group_id]
            if self.offsets.of_group(group_id) or self.offsets.pending.of_group(group_id):
                self._simple_group(group_id)

    def _note_pending(self, decision: GroupDecision, request: join.Join, *, is_new_group: bool) -> None:
        """Counts the id that was given, or that was used; the oldest are forgotten where there are too many."""
        group_id, member_id = request.request.group_id, request.request.member_id
        if member_id:
            self.pending_ids.discard(group_id, member_id)
            return
        group = self.groups.of_kind(ClassicGroup, group_id)
        if group is None or request.new_member_id not in group.pending_members:
            return
        self.pending_ids.add(group_id, request.new_member_id, is_new_group=is_new_group)
        for old_group_id, old_member_id in self.pending_ids.too_many():
            group = self.groups.of_kind(ClassicGroup, old_group_id)
            if group is None:
                continue
            if old_member_id in group.pending_members:
                decision.cancel(heartbeat_key(old_group_id, old_member_id))
                rebalance.on_heartbeat_deadline(decision, group, old_member_id)
            if group.is_unwritten and not self.offsets.of_group(old_group_id):
                del self.groups[old_group_id]

    def join(self, now_ms: int, request: join.Join) -> GroupEffects:
        """Replies a JoinAnswer: of a classic group when the join phase ends."""
        group = self._with_members(request.request.group_id)
        if group is not None:
            self.pending_ids.discard(group.group_id, request.request.member_id)
            return self._answer(
                now_ms,
                request.token,
                lambda decision: classic_members.join(decision, self.groups, group, request),
                lambda refused: rebalance.join_refused(rebalance.UNKNOWN_MEMBER, refused.code),
            )
        decision = self._decision(now_ms)
        created = join.join(decision, self.groups, request)
        if created is not None:
            self.groups[created.group_id] = created
        self._note_pending(decision, request, is_new_group=created is not None)
        return decision.effects()

    def sync(
        self, now_ms: int, token: Token, request: SyncGroupRequest, assignments: Mapping[str, bytes]
    ) -> GroupEffects:
        """Replies a SyncAnswer: of a classic group when the leader's assignments, by member, are committed."""
        group = self._with_members(request.group_id)
        if group is not None:
            return self._answer(
                now_ms,
                token,
                lambda decision: classic_members.sync(decision, group, request),
                lambda refused: rebalance.sync_refused(refused.code),
            )
        decision = self._decision(now_ms)
        sync.sync(decision, self.groups, token, request, assignments)
        return decision.effects()

    def heartbeat(self, now_ms: int, token: Token, request: HeartbeatRequest) -> GroupEffects:
        """Replies an ErrorCode."""
        group = self._with_members(request.group_id)
        if group is not None:
            return self._answer(now_ms, token, lambda decision: classic_members.heartbeat(decision, group, request))
        return self._answer(now_ms, token, lambda decision: sync.heartbeat(decision, self.groups, request))

    def _with_members(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group, unless it is empty: then it gives way to a classic one."""
        group = self.groups.of_kind(ConsumerGroup, group_id)
        return group if group is not None and group.members else None

    def consumer_heartbeat(self, now_ms: int, token: Token, beat: consumer_heartbeat.Heartbeat) -> GroupEffects:
        """Replies a ConsumerGroupHeartbeatResponse."""
        return self._answer(now_ms, token, lambda decision: consumer_heartbeat.heartbeat(decision, self.groups, beat))

    def take_expressions(
        self, now_ms: int, token: Token, group_id: str, found: Mapping[str, tuple[str, ...]], version: int
    ) -> GroupEffects:
        """Replies nothing: the topics of regular expressions, as ResolveExpressions asked for them."""

        def decide(decision: GroupDecision) -> None:
            group = self.groups.of_kind(ConsumerGroup, group_id)
            if group is not None:
                expressions.resolved(decision, group, found, version)

        return self._answer(now_ms, token, decide)

    def take_targets(
        self, now_ms: int, token: Token, action: target.ComputeTargets, targets: GroupAssignment
    ) -> GroupEffects:
        """Replies nothing: the target assignment that ComputeTargets asked for."""

        def decide(decision: GroupDecision) -> None:
            group = self.groups.of_kind(ConsumerGroup, action.group_id)
            if group is not None:
                target.computed(decision, group, action, targets)

        return self._answer(now_ms, token, decide)

    def leave(self, now_ms: int, token: Token, group_id: str, leavers: Sequence[Leaver]) -> GroupEffects:
        """Replies one ErrorCode per leaver."""

        def decide(decision: GroupDecision) -> list[ErrorCode]:
            group = self.groups.of_kind(ConsumerGroup, group_id)
            if group is not None:
                return consumer_leave.remove_each(decision, self.groups, group, leavers)
            return leave.leave(decision, self.groups, group_id, leavers)

        return self._answer(now_ms, token, decide)

    def commit(
        self, now_ms: int, token: Token, request: CommitHeader, positions: Sequence[OffsetToCommit]
    ) -> GroupEffects:
        """Replies one ErrorCode per position."""
        return self._answer(now_ms, token, lambda decision: offsets.commit(decision, self.groups, request, positions))

    def open_transaction(self, now_ms: int, token: Token, producer: ProducerIdAndEpoch) -> GroupEffects:
        """Replies None if the producer's transaction is open here, else what commit_in_transaction wants to be given.

        Its coordinator must be asked meanwhile whether it has a transaction (KIP-890). INVALID_PRODUCER_EPOCH to one
        that was fenced.
        """

        def decide(decision: GroupDecision) -> Moment | None:
            self.ended.validate_epoch(producer)
            producer_id, epoch = producer
            return None if self.offsets.pending.epoch_of(producer_id) == epoch else self.ended.moment()

        return self._answer(now_ms, token, decide)

    def commit_in_transaction(
        self,
        now_ms: int,
        token: Token,
        request: CommitHeader,
        positions: Sequence[OffsetToCommit],
        producer: ProducerIdAndEpoch,
        verified: Moment | None,
        *,
        supports_epoch_bump: bool,
    ) -> GroupEffects:
        """Replies one ErrorCode per position (TxnOffsetCommit). verified: what open_transaction replied.

        INVALID_TXN_STATE if the transaction has ended since; it is a later one that this came too late for.
        supports_epoch_bump: the producer's transactions are of version 2.
        """

        def decide(decision: GroupDecision) -> list[ErrorCode]:
            self.ended.validate_epoch(producer)
            producer_id, epoch = producer
            if self.offsets.pending.epoch_of(producer_id) > epoch:
                raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
            is_open = self.offsets.pending.epoch_of(producer_id) == epoch
            if not is_open and verified is None:
                raise ApiError(ErrorCode.INVALID_TXN_STATE)
            if not is_open and verified is not None:
                self.ended.validate_open_since(verified, producer, supports_epoch_bump=supports_epoch_bump)
            return offsets.commit(decision, self.groups, request, positions, producer)

        return self._answer(now_ms, token, decide)

    def end_transaction(
        self, now_ms: int, token: Token, end: EndOfTransaction, transaction_version: int
    ) -> GroupEffects:
        """Replies NONE once the marker is in the log. INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.

        From transaction version 2 on a marker has an epoch above its transaction's: with the same it is the late one of
        the transaction before (KIP-1228). No epoch is above the last one.
        """

        def decide(decision: GroupDecision) -> ErrorCode:
            self.ended.validate_marker(end)
            producer_id, epoch = end.producer
            held = self.offsets.pending.epoch_of(producer_id)
            if held > epoch or (transaction_version >= 2 and held == epoch != LAST_PRODUCER_EPOCH):
                raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
            decision.append(end)
            return ErrorCode.NONE

        return self._answer(now_ms, token, decide)

    def fetch_offsets(
        self,
        now_ms: int,
        token: Token,
        group_id: str,
        wanted: Sequence[TopicPartition] | None,
        *,
        require_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> GroupEffects:
        """Replies {(topic, partition): OffsetCommitted}, all of the group's for None; unknown ones are absent.

        require_stable (KIP-447): None for those of which an open transaction has an offset. member_id, member_epoch: of
        a member that says who it is (KIP-848).
        """
        held = self.offsets.of_group(group_id)
        found: dict[TopicPartition, OffsetCommitted | None]
        found = dict(held) if wanted is None else {key: held[key] for key in wanted if key in held}
        if require_stable and (pending := self.offsets.pending.of_group(group_id)):
            found.update(dict.fromkeys(pending if wanted is None else pending & set(wanted)))

        def decide(decision: GroupDecision) -> Mapping[TopicPartition, OffsetCommitted | None]:
            group = self.groups.get(group_id)
            if group is not None:
                group.validate_offset_fetch(member_id, member_epoch)
            return found

        return self._answer(now_ms, token, decide)

    def delete_offsets(
        self, now_ms: int, token: Token, group_id: str, partitions: Sequence[TopicPartition]
    ) -> GroupEffects:
        """Replies one ErrorCode per partition."""

        def decide(decision: GroupDecision) -> list[ErrorCode]:
            group = self.groups.get(group_id)
            if group is None:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
            group.validate_offset_delete()
            return [offsets.delete(decision, group, self.offsets, topic, partition) for topic, partition in partitions]

        return self._answer(now_ms, token, decide)

    def delete_groups(self, now_ms: int, token: Token, group_ids: Sequence[str]) -> GroupEffects:
        """Replies {group id: ErrorCode}; a group's offsets go with it, and those of a large one before it.

        Leaves out what is too much for one decision; to be asked again.
        """

        def decide(decision: GroupDecision) -> dict[str, ErrorCode]:
            codes: dict[str, ErrorCode] = {}
            left = ROWS_AT_ONCE
            for group_id in group_ids:
                try:
                    removed = self._delete(decision, group_id, left)
                except ApiError as refused:
                    codes[group_id] = refused.code
                    continue
                if removed is None:
                    break
                left -= removed
                codes[group_id] = ErrorCode.NONE
            return codes

        return self._answer(now_ms, token, decide)

    def _delete(self, decision: GroupDecision, group_id: str, most: int) -> int | None:
        """Removes the group and its offsets: how many, None where there are more than most. Raises ApiError."""
        group = self.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.validate_delete()
        held = self.offsets.of_group(group_id)
        pending = [key for key in self.offsets.pending.of_group(group_id) if key not in held]
        for topic, partition in islice(chain(held, pending), most):
            decision.append(OffsetRemoved(group_id, topic, partition))
        count = len(held) + len(pending)
        if count > most:
            return None
        self._remove(decision, group)
        return count

    def describe_groups(self, now_ms: int, token: Token, group_ids: Sequence[str]) -> GroupEffects:
        """Replies {group id: GroupDescription, an ApiError, or None for a group that does not exist}.

        Leaves out what is too much for one decision; to be asked again.
        """

        def described(group_id: str) -> GroupDescription | None:
            group = self.groups.get(group_id)
            return None if group is None else group.describe()

        return self._answer(now_ms, token, lambda _: self._of_each(group_ids, described))

    def describe_consumer_groups(self, now_ms: int, token: Token, group_ids: Sequence[str]) -> GroupEffects:
        """Replies {group id: ConsumerGroupDescription, or an ApiError}.

        Leaves out what is too much for one decision; to be asked again.
        """
        return self._answer(
            now_ms,
            token,
            lambda decision: self._of_each(group_ids, partial(describe.describe, decision, self.groups)),
        )

    def _of_each(self, group_ids: Sequence[str], described: Callable[[str], T]) -> dict[str, T | ApiError]:
        """What is described of each group, up to ROWS_AT_ONCE groups and members; at least of the first."""
        found: dict[str, T | ApiError] = {}
        left = ROWS_AT_ONCE
        for group_id in group_ids:
            group = self.groups.get(group_id)
            left -= 1 if group is None else 1 + group.member_count
            if left < 0 and found:
                break
            try:
                found[group_id] = described(group_id)
            except ApiError as refused:
                found[group_id] = refused
        return found

    def list_groups(self, now_ms: int, token: Token, states: Collection[str], types: Collection[str]) -> GroupEffects:
        """Replies (Listed, ...): of these states (KIP-518) and types (KIP-848), lower case; empty ones take all."""
        listed = [
            group.listed()
            for group in self.groups.values()
            if (not states or group.state.lower() in states) and (not types or group.group_type in types)
        ]
        return self._answer(now_ms, token, lambda _: tuple(listed))

    # -- by itself ---------------------------------------------------------------------------------------------------

    def on_loaded(self, now_ms: int, image: MetadataImage) -> GroupEffects:
        """Begins the deadlines of all groups."""
        self.image, self.topic_hashes = image, {}
        decision = self._decision(now_ms)
        self._schedule_expiry(decision)
        decision.act(Sweep(list(self.groups), self._begin_deadlines))
        return decision.effects()

    def _begin_deadlines(self, now_ms: int, group_id: str) -> GroupEffects:
        decision = self._decision(now_ms)
        group = self.groups.get(group_id)
        if group is not None:
            group.on_loaded(decision)
        return decision.effects()

    def on_image(self, now_ms: int, delta: MetadataDelta) -> GroupEffects:
        """Removes the offsets of deleted topics, also those of open transactions; groups hear of all that changed."""
        self.image, self.topic_hashes = delta.new, {}
        for group in self.groups.values() if delta.changed_topics else ():
            group.on_topics_changed(delta.changed_topics)
        if not delta.deleted_topics:
            return Effects()
        decision = self._decision(now_ms)
        offsets.remove_of_topics(decision, self.offsets.pending, delta.deleted_topics)
        decision.act(Sweep(list(self.groups), partial(self._remove_offsets_of, delta.deleted_topics)))
        return decision.effects()

    def _remove_offsets_of(self, deleted: Mapping[str, UUID], now_ms: int, group_id: str) -> GroupEffects:
        decision = self._decision(now_ms)
        offsets.remove_of_topics(decision, self.offsets.of_group(group_id).values(), deleted)
        return decision.effects()

    def on_timer(self, key: Hashable, now_ms: int) -> GroupEffects:
        """A deadline of `decision.py` has passed."""
        decision = self._decision(now_ms)
        match key:
            case ("expiry",):
                decision.act(Sweep(list(self.groups), self.expire_offsets))
                self._schedule_expiry(decision)
            case (str(), str(group_id), *_) if (group := self.groups.of_kind(ClassicGroup, group_id)) is not None:
                rebalance.on_deadline(decision, group, key)
            case (str(), str(group_id), *_) if (consumers := self.groups.of_kind(ConsumerGroup, group_id)) is not None:
                consumer_leave.on_deadline(decision, self.groups, consumers, key)
        return decision.effects()

    def expire_offsets(self, now_ms: int, group_id: str) -> GroupEffects:
        """Removes expired offsets of a group, and the group that has neither members nor offsets left."""
        decision = self._decision(now_ms)
        group = self.groups.get(group_id)
        if group is not None and offsets.expire(decision, group, self.offsets) and group.is_disused:
            self._remove(decision, group)
        return decision.effects()

    def _schedule_expiry(self, decision: GroupDecision) -> None:
        decision.schedule(EXPIRY_KEY, self.config.offsets_retention_check_interval_ms)

    def _remove(self, decision: GroupDecision, group: Group) -> None:
        for key in group.timer_keys():
            decision.cancel(key)
        for record in group.tombstones():
            decision.append(record)

    def _decision(self, now_ms: int) -> GroupDecision:
        return GroupDecision(self.config, now_ms, self.image, self.topic_hashes)

    def _answer(
        self,
        now_ms: int,
        token: Token,
        decide: Callable[[GroupDecision], object],
        refused: Callable[[ApiError], object] = _as_it_is,
    ) -> GroupEffects:
        decision = self._decision(now_ms)
        try:
            decision.reply(token, decide(decision))
        except ApiError as refusal:
            decision = self._decision(now_ms)
            decision.reply(token, refused(refusal))
        return decision.effects()
