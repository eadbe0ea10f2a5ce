"""The uniform assignor: as equal numbers of partitions as the subscriptions allow; members keep what they can.

Balance comes before stickiness, as in Kafka's UniformAssignor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from uuid import UUID

from tailrace_coordinator.groups.assignors.balance import Balance
from tailrace_coordinator.groups.assignors.owners import (
    NO_OWNER,
    Owners,
    assignment,
    members_in_order,
    present_owners,
    subscribers,
)
from tailrace_coordinator.groups.assignors.spec import GroupAssignment, GroupSpec


def assign(spec: GroupSpec) -> GroupAssignment:
    """The partitions of each member. No assignment with more equal numbers exists."""
    order = members_in_order(spec)
    topics = subscribers(spec, order)
    owners = present_owners(spec, order, topics)
    members = next(iter(topics.values()), [])
    if all(subscribed == members for subscribed in topics.values()):
        _share(owners, members)
    else:
        _move(owners, topics)
    return assignment(order, owners)


def _share(owners: Owners, members: Sequence[int]) -> None:
    """Gives equal numbers to members with the same subscription: the larger shares to those that have most now."""
    if not owners:
        return
    counts = Counter(index for of_topic in owners.values() for index in of_topic)
    least, larger = divmod(sum(map(len, owners.values())), len(members))
    by_count = sorted(members, key=lambda index: -counts[index])
    quotas = {index: least + (rank < larger) for rank, index in enumerate(by_count)}
    for of_topic in owners.values():
        for partition, index in enumerate(of_topic):
            if index != NO_OWNER and counts[index] > quotas[index]:
                counts[index] -= 1
                of_topic[partition] = NO_OWNER
    _deal(owners, {index: quotas[index] - counts[index] for index in members})


def _deal(owners: Owners, missing: dict[int, int]) -> None:
    """Gives the partitions without an owner to members by turns, so that a topic's are with many members."""
    turns = cycle([index for index, count in missing.items() if count])
    for of_topic in owners.values():
        for partition, owner in enumerate(of_topic):
            if owner == NO_OWNER:
                index = next(index for index in turns if missing[index])
                missing[index] -= 1
                of_topic[partition] = index


def _move(owners: Owners, topics: dict[UUID, list[int]]) -> None:
    """Gives numbers as equal as different subscriptions allow, by the counts that `Balance` finds."""
    balance = Balance(owners, topics)
    balance.fill()
    balance.level()
    for topic_id, of_topic in owners.items():
        counts = Counter(balance.held_of(topic_id))
        for partition, index in enumerate(of_topic):
            if index != NO_OWNER:
                if counts[index]:
                    counts[index] -= 1
                else:
                    of_topic[partition] = NO_OWNER
        _deal({topic_id: of_topic}, counts)
