"""The range assignor: partitions with the same number, of topics with as many partitions, have the same member.

Programs that join such topics need that (co-partitioned topics), and Kafka's RangeAssignor does it. A first assignment
gives ranges; later ones keep what they can. Kafka's newer versions give ranges again each time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from uuid import UUID

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
    """The partitions of each member; of one topic no member has two more than another one that subscribes to it."""
    order = members_in_order(spec)
    topics = subscribers(spec, order)
    present = present_owners(spec, order, topics)
    alike: dict[tuple[int, tuple[int, ...]], list[UUID]] = defaultdict(list)
    for topic_id, members in topics.items():
        alike[spec.topics[topic_id].partitions, tuple(members)].append(topic_id)
    loads = [0] * len(order)
    owners: Owners = {}
    for (_, alike_members), ids in sorted(alike.items(), key=lambda row: -len(row[1])):
        shared = _share([present[id] for id in ids], alike_members, loads)
        owners |= dict.fromkeys(ids, shared)
        for index in shared:
            loads[index] += len(ids)
    return assignment(order, owners)


def _share(present: Sequence[Sequence[int]], members: Sequence[int], loads: Sequence[int]) -> list[int]:
    """The owners of the partitions of topics that are alike: those that have them now, as far as shares allow."""
    votes = Counter(row for of_topic in present for row in enumerate(of_topic) if row[1] != NO_OWNER)
    least, larger = divmod(len(present[0]), len(members))
    owners = [NO_OWNER] * len(present[0])
    counts = dict.fromkeys(members, 0)
    over: list[tuple[int, int]] = []
    for row in sorted(votes, key=lambda row: (-votes[row], row)):
        partition, index = row
        if owners[partition] != NO_OWNER:
            continue
        if counts[index] < least:
            owners[partition] = index
            counts[index] += 1
        else:
            over.append(row)
    for partition, index in over:
        if larger and owners[partition] == NO_OWNER and counts[index] == least:
            owners[partition] = index
            counts[index] += 1
            larger -= 1
    quotas = dict.fromkeys(members, least)
    for index in sorted((index for index in members if counts[index] <= least), key=lambda index: loads[index]):
        if larger:
            quotas[index] += 1
            larger -= 1
    missing = [index for index in members for _ in range(quotas[index] - counts[index])]
    gaps = (partition for partition, index in enumerate(owners) if index == NO_OWNER)
    for partition, index in zip(gaps, missing, strict=True):
        owners[partition] = index
    return owners
