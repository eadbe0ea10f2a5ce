"""The target assignment of a consumer group: what its members are to own (Kafka's TargetAssignmentBuilder)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from tailrace.coordination.consumer_group_records import (
    ConsumerGroupMemberMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
)
from tailrace.metadata.image import MetadataImage
from tailrace_coordinator.groups.assignors.assignors import ASSIGNORS
from tailrace_coordinator.groups.assignors.spec import GroupAssignment, GroupSpec, MemberSpec, TopicSpec
from tailrace_coordinator.groups.consumer.group import ConsumerGroup, topics_of
from tailrace_coordinator.groups.decision import GroupDecision
from tailrace_coordinator.groups.modern.assignment import target_rows
from tailrace_coordinator.groups.modern.topics import topic_specs


class Change(NamedTuple):
    """A group without some of its members, and with one that is new or says something else of itself."""

    group: ConsumerGroup
    before: Collection[ConsumerGroupMemberMetadata]
    after: ConsumerGroupMemberMetadata | None

    def members(self) -> dict[str, ConsumerGroupMemberMetadata]:
        """The members with the change."""
        members = dict(self.group.members)
        for member in self.before:
            del members[member.member_id]
        if self.after is not None:
            members[self.after.member_id] = self.after
        return members

    def expressions(self) -> set[str]:
        """The regular expressions that members have."""
        counts = self.group.used_expressions - Counter(member.subscribed_topic_regex or "" for member in self.before)
        own = None if self.after is None else self.after.subscribed_topic_regex
        return {*counts, own} if own else set(counts)

    def topics(self) -> set[str]:
        """The names of all topics that the members subscribe to."""
        group = self.group
        gone = Counter(name for member in self.before for name in member.subscribed_topic_names)
        topics = {name for name, count in group.subscribed_topics.items() if count > gone[name]}
        if self.after is not None:
            topics.update(self.after.subscribed_topic_names)
        for expression in self.expressions() & group.expressions.keys():
            topics.update(group.expressions[expression].topics)
        return topics


@dataclass(frozen=True, slots=True)
class ComputeTargets:
    """The target assignment of an epoch, to be computed of a group as it was in that epoch; nothing of it changes.

    As an action: compute it, and have the machine take it (KIP-1263).
    """

    group_id: str
    epoch: int
    members: Mapping[str, ConsumerGroupMemberMetadata]
    topics: Mapping[UUID, TopicSpec]
    present: GroupAssignment
    expressions: Mapping[str, ConsumerGroupRegularExpression]
    image: MetadataImage
    assignor: str

    @property
    def rows(self) -> int:
        """What the time that it takes grows with."""
        return len(self.members) + sum(topic.partitions for topic in self.topics.values())

    def compute(self) -> GroupAssignment:
        """Returns the target of each member."""
        known = dict[tuple[tuple[str, ...], str | None], frozenset[UUID]]()
        members: dict[str, MemberSpec] = {}
        for member_id, member in self.members.items():
            which = member.subscribed_topic_names, member.subscribed_topic_regex
            if which not in known:  # most members have the same
                known[which] = self._subscribed(member)
            assigned = self.present.get(member_id, {})
            members[member_id] = MemberSpec(known[which], member.rack_id, member.instance_id, assigned)
        return ASSIGNORS[self.assignor](GroupSpec(members, self.topics))

    def _subscribed(self, member: ConsumerGroupMemberMetadata) -> frozenset[UUID]:
        topics = (self.image.topic(name) for name in topics_of(member, self.expressions))
        return frozenset(topic.topic_id for topic in topics if topic is not None)


def targets_to_compute(decision: GroupDecision, change: Change, epoch: int, present: GroupAssignment) -> ComputeTargets:
    """Returns what the target assignment of this epoch is computed from. present: the one before it."""
    group, members = change.group, change.members()
    topics = topic_specs(change.topics(), decision.image)
    assignor = preferred_assignor(decision, members)
    expressions = dict(group.expressions)
    return ComputeTargets(group.group_id, epoch, members, topics, present, expressions, decision.image, assignor)


def assign(decision: GroupDecision, group: ConsumerGroup, epoch: int, targets: GroupAssignment) -> GroupAssignment:
    """Writes what changes with the target assignment of this epoch, and returns it."""
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            decision.append(ConsumerGroupTargetAssignmentMember(group.group_id, member_id, target_rows(target)))
    decision.append(ConsumerGroupTargetAssignmentMetadata(group.group_id, epoch, decision.now_ms))
    return targets


def computed(decision: GroupDecision, group: ConsumerGroup, action: ComputeTargets, targets: GroupAssignment) -> None:
    """Takes the targets of members that are still there; those of a later epoch come with the next computation."""
    group.assigning_since_ms = None
    if not group.assignment_epoch < action.epoch <= group.group_epoch:
        return
    if action.epoch == group.group_epoch and targets.keys() != group.members.keys():
        return  # a static member came back under another id: computed again, as no later epoch follows
    staying = {member_id: target for member_id, target in targets.items() if member_id in group.members}
    assign(decision, group, action.epoch, staying)


def preferred_assignor(decision: GroupDecision, members: Mapping[str, ConsumerGroupMemberMetadata]) -> str:
    """Returns the assignor that most members ask for; the first one that is configured where none asks for any."""
    known = decision.config.group_consumer_assignors
    votes = Counter(member.server_assignor for member in members.values() if member.server_assignor in known)
    return max(known, key=lambda name: votes[name])
