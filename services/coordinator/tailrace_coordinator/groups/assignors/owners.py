"""The owner of each partition: from the present assignment before an assignor's work, into the new one after it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

from tailrace_coordinator.groups.assignors.spec import GroupAssignment, GroupSpec

NO_OWNER = -1
Owners = dict[UUID, list[int]]  # by topic, for each partition the index of its member


def members_in_order(spec: GroupSpec) -> list[str]:
    """Static members by their instance ids, then the others by their ids: a restart does not change the order."""
    return sorted(
        spec.members, key=lambda id: (spec.members[id].instance_id is None, spec.members[id].instance_id or "", id)
    )


def subscribers(spec: GroupSpec, order: Sequence[str]) -> dict[UUID, list[int]]:
    """The members of each topic that has partitions, as indexes, by topic id."""
    found: dict[UUID, list[int]] = defaultdict(list)
    for index, member_id in enumerate(order):
        for topic_id in spec.members[member_id].subscribed:
            found[topic_id].append(index)
    return {id: found[id] for id in sorted(found) if id in spec.topics and spec.topics[id].partitions > 0}


def present_owners(spec: GroupSpec, order: Sequence[str], topics: Mapping[UUID, Sequence[int]]) -> Owners:
    """Who may keep which partition: a member that no longer subscribes keeps none, nor a second one of the same."""
    owners = {id: [NO_OWNER] * spec.topics[id].partitions for id in topics}
    for index, member_id in enumerate(order):
        member = spec.members[member_id]
        for topic_id, partitions in member.assigned.items():
            if topic_id not in owners or topic_id not in member.subscribed:
                continue
            of_topic = owners[topic_id]
            for partition in partitions:
                if partition < len(of_topic) and of_topic[partition] == NO_OWNER:
                    of_topic[partition] = index
    return owners


def assignment(order: Sequence[str], owners: Owners) -> GroupAssignment:
    """The answer of an assignor: each partition has an owner."""
    held: list[dict[UUID, list[int]]] = [{} for _ in order]
    for topic_id, of_topic in owners.items():
        for partition, index in enumerate(of_topic):
            held[index].setdefault(topic_id, []).append(partition)
    return {
        member_id: {id: frozenset(partitions) for id, partitions in topics.items()}
        for member_id, topics in zip(order, held, strict=True)
    }
