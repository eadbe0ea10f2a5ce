"""What an assignment costs: partitions that moved, and how unequal the members' numbers are."""

from __future__ import annotations

from tailrace_coordinator.groups.assignors.spec import GroupAssignment, GroupSpec


def moved(spec: GroupSpec, assigned: GroupAssignment) -> int:
    """The number of partitions that have another member than before; those that had none count too."""
    return sum(
        len(partitions - spec.members[id].assigned.get(topic, frozenset()))
        for id, topics in assigned.items()
        for topic, partitions in topics.items()
    )


def loads(spec: GroupSpec, assigned: GroupAssignment) -> list[int]:
    """The numbers of partitions of the members, the largest first."""
    return sorted((sum(map(len, assigned.get(id, {}).values())) for id in spec.members), reverse=True)


def complaints(spec: GroupSpec, assigned: GroupAssignment) -> list[str]:
    """What is wrong with an assignment: each partition with a subscriber has one owner, that subscribes."""
    found = []
    owned: list[tuple[object, int]] = []
    for id, topics in assigned.items():
        for topic, partitions in topics.items():
            if topic not in spec.members[id].subscribed:
                found.append(f"{id} does not subscribe to {topic}")
            if not partitions:
                found.append(f"{id} has {topic} without partitions")
            owned += [(topic, partition) for partition in partitions]
    if len(owned) != len(set(owned)):
        found.append("a partition has two owners")
    wanted = {topic for member in spec.members.values() for topic in member.subscribed} & set(spec.topics)
    every = {(topic, partition) for topic in wanted for partition in range(spec.topics[topic].partitions)}
    if set(owned) != every:
        found.append(f"{every ^ set(owned)} have no owner, or should have none")
    if set(assigned) != set(spec.members):
        found.append("a member is missing")
    return found
