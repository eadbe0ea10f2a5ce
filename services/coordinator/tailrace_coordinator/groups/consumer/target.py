"""The target assignment of a consumer group: what its members are to own (Kafka's TargetAssignmentBuilder)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple
from uuid import UUID

from tailrace.coordination.consumer_group_records import (
    ConsumerGroupMemberMetadata,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
)
from tailrace.metadata.image import MetadataImage
from tailrace_coordinator.groups.assignors.assignors import ASSIGNORS
from tailrace_coordinator.groups.assignors.spec import GroupAssignment, GroupSpec, MemberSpec
from tailrace_coordinator.groups.consumer.group import ConsumerGroup
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


def assign(decision: GroupDecision, change: Change, epoch: int, present: GroupAssignment) -> GroupAssignment:
    """Computes the target assignment of this epoch and writes what changes. present: the one before it."""
    group, members = change.group, change.members()
    topics = topic_specs(change.topics(), decision.image)
    subscribed = _Subscriptions(group, decision.image)
    spec = GroupSpec(
        {
            member_id: MemberSpec(subscribed.of(member), member.rack_id, member.instance_id, present.get(member_id, {}))
            for member_id, member in members.items()
        },
        topics,
    )
    targets = ASSIGNORS[preferred_assignor(decision, members)](spec)
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            decision.append(ConsumerGroupTargetAssignmentMember(group.group_id, member_id, target_rows(target)))
    decision.append(ConsumerGroupTargetAssignmentMetadata(group.group_id, epoch, decision.now_ms))
    return targets


class _Subscriptions:
    """The ids of the topics of subscriptions; most members have the same."""

    def __init__(self, group: ConsumerGroup, image: MetadataImage) -> None:
        self._group = group
        self._image = image
        self._known: dict[tuple[tuple[str, ...], str | None], frozenset[UUID]] = {}

    def of(self, member: ConsumerGroupMemberMetadata) -> frozenset[UUID]:
        which = (member.subscribed_topic_names, member.subscribed_topic_regex)
        found = self._known.get(which)
        if found is None:
            topics = (self._image.topic(name) for name in self._group.topics_of(member))
            found = self._known[which] = frozenset(topic.topic_id for topic in topics if topic is not None)
        return found


def preferred_assignor(decision: GroupDecision, members: Mapping[str, ConsumerGroupMemberMetadata]) -> str:
    """Returns the assignor that most members ask for; the first one that is configured where none asks for any."""
    known = decision.config.group_consumer_assignors
    votes = Counter(member.server_assignor for member in members.values() if member.server_assignor in known)
    return max(known, key=lambda name: votes[name])
