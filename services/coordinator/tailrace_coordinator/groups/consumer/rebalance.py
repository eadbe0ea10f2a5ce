"""The steps of a rebalance, each with an epoch: subscriptions, the target assignment, and what a member owns."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.coordination.consumer_group_records import ConsumerGroupCurrentMemberAssignment, ConsumerGroupMetadata
from tailrace_coordinator.groups.assignors.spec import Assignment
from tailrace_coordinator.groups.consumer.config import consumer_times, offloads_assignor
from tailrace_coordinator.groups.consumer.group import ConsumerGroup
from tailrace_coordinator.groups.consumer.members import FormerMember
from tailrace_coordinator.groups.consumer.target import Change, assign, preferred_assignor, targets_to_compute
from tailrace_coordinator.groups.decision import LOST_AFTER_MS, GroupDecision
from tailrace_coordinator.groups.modern.assignment import owned_rows
from tailrace_coordinator.groups.modern.reconciliation import Current, Target, reconcile, validate_state
from tailrace_coordinator.groups.modern.topics import metadata_hash


def rebalance(decision: GroupDecision, change: Change, before: FormerMember, reported: Assignment | None) -> Current:
    """Returns what the member owns from now on, after all steps. reported: what it says that it owns.

    Raises ApiError FENCED_MEMBER_EPOCH, before any step: what a group notes as begun must not be refused afterwards.
    """
    assert change.after is not None
    validate_state(before.current, reported)
    epoch = group_epoch(decision, change, before)
    moved = before.moved_target(change.group, change.after.member_id)
    return _reconcile_member(decision, change, before, target_of(decision, change, epoch, moved), reported)


def group_epoch(decision: GroupDecision, change: Change, before: FormerMember | None) -> int:
    """Returns the group epoch: the next one where subscriptions, their topics or the assignor are others.

    before: the member that the change is of, if it is of one.
    """
    group = change.group
    bumps = before is not None and _bumps(decision, change, before)
    if not bumps and not group.metadata_expired:
        return group.group_epoch
    group.metadata_expired = False
    now = metadata_hash(change.topics(), decision.image, decision.topic_hashes)
    if not bumps and now == group.metadata_hash:
        return group.group_epoch
    decision.append(ConsumerGroupMetadata(group.group_id, group.group_epoch + 1, now))
    return group.group_epoch + 1


def _bumps(decision: GroupDecision, change: Change, before: FormerMember) -> bool:
    group, member = change.group, change.after
    assert member is not None
    names_changed, expression_changed = before.changes(member)
    expression = member.subscribed_topic_regex
    if names_changed or (expression_changed and (not expression or expression in group.expressions)):
        return True
    asked_for = None if before.metadata is None else before.metadata.server_assignor
    if member.server_assignor == asked_for:
        return False
    return preferred_assignor(decision, group.members) != preferred_assignor(decision, change.members())


def target_of(
    decision: GroupDecision, change: Change, epoch: int, moved: Mapping[str, Assignment]
) -> tuple[int, Mapping[str, Assignment]]:
    """Returns the assignment epoch and the targets of the members: new ones, or those that stand.

    Between two assignments there is a pause, so that members that join together are assigned together. A large one is
    computed in a thread, while the former one stands (KIP-1263). moved: targets of members under ids that the group
    does not know yet.
    """
    group = change.group
    present = {**group.targets, **moved} if moved else group.targets
    if epoch <= group.assignment_epoch or not _may_assign(decision, group):
        return group.assignment_epoch, present
    action = targets_to_compute(decision, change, epoch, dict(present))
    if action.rows <= decision.config.max_rows_assigned_at_once or not offloads_assignor(decision):
        return epoch, assign(decision, group, epoch, action.compute())
    group.assigning_since_ms = decision.now_ms
    decision.act(action)
    return group.assignment_epoch, present


def _may_assign(decision: GroupDecision, group: ConsumerGroup) -> bool:
    """Whether no assignment is being computed, and the pause after the last one is over."""
    now_ms, since_ms = decision.now_ms, group.assigning_since_ms
    if since_ms is not None and now_ms - since_ms < LOST_AFTER_MS:
        return False
    pause_ms = consumer_times(decision, group.group_id).assignment_interval_ms
    age_ms = now_ms - group.assignment_timestamp_ms
    return group.assignment_timestamp_ms == 0 or age_ms >= pause_ms or age_ms < 0


def _reconcile_member(
    decision: GroupDecision,
    change: Change,
    before: FormerMember,
    target: tuple[int, Mapping[str, Assignment]],
    reported: Assignment | None,
) -> Current:
    """Returns what the member owns from now on, and writes it where that changes."""
    group, member = change.group, change.after
    assert member is not None
    epoch, targets = target
    subscription_changed = before.metadata is not None and any(before.changes(member))
    if before.current.is_reconciled_to(epoch) and not subscription_changed:
        return before.current
    topics, names = group.topics_of(member), decision.image.topic_names
    wanted = Target(
        epoch, targets.get(member.member_id, {}), lambda topic_id: names.get(topic_id) in topics, group.is_free
    )
    current = reconcile(before.current, wanted, reported, subscription_changed=subscription_changed)
    if current != before.current:
        decision.append(_record(group, member.member_id, current))
    return current


def _record(group: ConsumerGroup, member_id: str, current: Current) -> ConsumerGroupCurrentMemberAssignment:
    return ConsumerGroupCurrentMemberAssignment(
        group.group_id,
        member_id,
        current.member_epoch,
        current.previous_member_epoch,
        current.state,
        owned_rows(current.assigned),
        owned_rows(current.pending_revocation),
    )
