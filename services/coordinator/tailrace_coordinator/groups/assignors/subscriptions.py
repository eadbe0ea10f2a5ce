"""The members and topics of a group by number, and what of their present assignment is still right."""

from __future__ import annotations

from collections import defaultdict
from operator import attrgetter
from uuid import UUID

from tailrace_coordinator.groups.assignors.spec import Assignment, GroupSpec, MemberSpec


class Subscriptions:
    """Topics are those with partitions and subscribers. Topics with the same subscribers share one set of them."""

    __slots__ = ("counts", "members", "numbers", "subscribers", "topics")

    def __init__(self, spec: GroupSpec) -> None:
        self.members = sorted(spec.members, key=lambda id: _rank(id, spec.members[id]))
        alike: dict[frozenset[UUID], list[int]] = defaultdict(list)
        for number, id in enumerate(self.members):
            alike[spec.members[id].subscribed].append(number)
        kinds: dict[UUID, list[int]] = defaultdict(list)
        for kind, subscribed in enumerate(alike):
            for topic_id in subscribed:
                kinds[topic_id].append(kind)
        of_kind = list(alike.values())
        shared: dict[tuple[int, ...], frozenset[int]] = {}
        existing = (id for id in kinds if id in spec.topics and spec.topics[id].partitions > 0)
        self.topics = sorted(existing, key=attrgetter("int"))
        self.numbers = {id: number for number, id in enumerate(self.topics)}
        self.counts = [spec.topics[id].partitions for id in self.topics]
        self.subscribers: list[frozenset[int]] = []
        for topic_id in self.topics:
            key = tuple(kinds[topic_id])
            if key not in shared:
                shared[key] = frozenset(number for kind in key for number in of_kind[kind])
            self.subscribers.append(shared[key])

    def present(self, spec: GroupSpec) -> tuple[list[Assignment], list[set[int]]]:
        """What each member may keep of its assignment, and of each topic the partitions that none may."""
        held = [self._subscribed(spec.members[id]) for id in self.members]
        free = self._free(held)
        if sum(self.counts) - sum(map(len, free)) != sum(len(of_topic) for row in held for of_topic in row.values()):
            held = self._without_faults(held)
            free = self._free(held)
        return held, free

    def _subscribed(self, member: MemberSpec) -> Assignment:
        assigned = member.assigned
        if assigned.keys() <= member.subscribed and assigned.keys() <= self.numbers.keys():
            return assigned
        return {id: assigned[id] for id in assigned if id in member.subscribed and id in self.numbers}

    def _free(self, held: list[Assignment]) -> list[set[int]]:
        free = [set(range(count)) for count in self.counts]
        for row in held:
            for topic_id, partitions in row.items():
                free[self.numbers[topic_id]] -= partitions
        return free

    def _without_faults(self, held: list[Assignment]) -> list[Assignment]:
        """Without partitions that do not exist, and those that a member before has, too."""
        left = [set(range(count)) for count in self.counts]
        right: list[Assignment] = []
        for row in held:
            kept = {id: partitions & left[self.numbers[id]] for id, partitions in row.items()}
            for topic_id, partitions in kept.items():
                left[self.numbers[topic_id]] -= partitions
            right.append({id: partitions for id, partitions in kept.items() if partitions})
        return right


def _rank(id: str, member: MemberSpec) -> tuple[bool, str]:
    """Static members by their instance ids, then the others by their ids: a restart does not change the order."""
    return member.instance_id is None, member.instance_id or id
