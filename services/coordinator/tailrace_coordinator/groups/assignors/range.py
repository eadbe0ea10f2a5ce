"""The range assignor: partitions with the same number, of topics with as many partitions, have the same member.

Programs that join such topics need that (co-partitioned topics). The first assignment gives ranges, as Kafka's
RangeAssignor does each time; later ones keep what they can.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from uuid import UUID

from tailrace_coordinator.groups.assignors.spec import GroupAssignment, GroupSpec
from tailrace_coordinator.groups.assignors.subscriptions import Subscriptions

Row = tuple[int, int]  # a partition and a member


def assign(spec: GroupSpec) -> GroupAssignment:
    """The partitions of each member; of one topic no member has two more than another one that subscribes to it."""
    subscriptions = Subscriptions(spec)
    present, _ = subscriptions.present(spec)
    alike: dict[tuple[int, frozenset[int]], list[int]] = defaultdict(list)
    for topic, (count, members) in enumerate(zip(subscriptions.counts, subscriptions.subscribers, strict=True)):
        alike[count, members].append(topic)
    holders: list[list[tuple[int, frozenset[int]]]] = [[] for _ in subscriptions.topics]
    for member, row in enumerate(present):
        for id, partitions in row.items():
            holders[subscriptions.numbers[id]].append((member, partitions))
    loads = [0] * len(present)
    for (count, members), topics in alike.items():
        for member in members:
            loads[member] += count // len(members) * len(topics)
    assigned: list[dict[UUID, frozenset[int]]] = [{} for _ in present]
    for (count, members), topics in sorted(alike.items(), key=lambda row: -len(row[1])):
        ids = [subscriptions.topics[topic] for topic in topics]
        votes: dict[Row, int] = defaultdict(int)
        for member, partitions in chain.from_iterable(holders[topic] for topic in topics):
            for partition in partitions:
                votes[partition, member] += 1
        for member, share in _share(count, sorted(members), votes, loads).items():
            loads[member] += (len(share) - count // len(members)) * len(ids)
            assigned[member] |= dict.fromkeys(ids, frozenset(share))
    return dict(zip(subscriptions.members, assigned, strict=True))


def _share(count: int, members: Sequence[int], votes: Mapping[Row, int], loads: Sequence[int]) -> dict[int, list[int]]:
    """The partitions of each member, of topics that are alike: those that it has now, as far as its share allows.

    A vote is a topic of which the member has the partition. Larger shares go to members that have one now, then to the
    least loaded ones.
    """
    least, larger = divmod(count, len(members))
    shares: dict[int, list[int]] = {member: [] for member in members}
    free = set(range(count))
    over: list[Row] = []
    for partition, member in sorted(votes, key=lambda row: (-votes[row], row)):
        if partition in free:
            if len(shares[member]) < least:
                free.remove(partition)
                shares[member].append(partition)
            else:
                over.append((partition, member))
    for partition, member in sorted(over, key=lambda row: (-votes[row], loads[row[1]])):
        if larger and partition in free and len(shares[member]) == least:
            free.remove(partition)
            shares[member].append(partition)
            larger -= 1
    small = sorted((member for member in members if len(shares[member]) <= least), key=lambda member: loads[member])
    quotas = dict.fromkeys(members, least) | dict.fromkeys(small[:larger], least + 1)
    rest = iter(sorted(free))
    for member in members:
        shares[member] += [next(rest) for _ in range(quotas[member] - len(shares[member]))]
    return {member: partitions for member, partitions in shares.items() if partitions}
