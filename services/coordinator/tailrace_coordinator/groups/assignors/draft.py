"""An assignment under way: members give partitions back and get others. Members and topics are numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tailrace_coordinator.groups.assignors.spec import Assignment, GroupAssignment, GroupSpec
from tailrace_coordinator.groups.assignors.subscriptions import Subscriptions


class Draft:
    """A member whose partitions do not change keeps its present assignment, the same object."""

    __slots__ = ("_changed", "_subscriptions", "free", "held")

    def __init__(self, spec: GroupSpec, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions
        self.held, self.free = subscriptions.present(spec)
        self._changed: dict[int, dict[int, list[int]]] = {}

    def take(self, member: int, count: int) -> None:
        """Takes partitions from a member, evenly from those topics of which it has most."""
        numbers = self._subscriptions.numbers
        rows = [(rank, numbers[id]) for id, held in self.held[member].items() for rank in range(len(held))]
        for topic, taken in Counter(topic for _, topic in sorted(rows)[-count:]).items():
            self.take_of(member, topic, taken)

    def take_of(self, member: int, topic: int, count: int) -> None:
        """Takes partitions of one topic from a member: those with the highest numbers."""
        id = self._subscriptions.topics[topic]
        mine = sorted(self.held[member][id])
        self.free[topic].update(mine[-count:])
        row: Assignment = {**self.held[member], id: frozenset(mine[:-count])}
        self.held[member] = {id: partitions for id, partitions in row.items() if partitions}

    def deal(self, topic: int, takers: Iterator[int]) -> None:
        """Gives the free partitions of a topic to members that are named one after the other."""
        for partition in sorted(self.free[topic]):
            self._changed.setdefault(next(takers), {}).setdefault(topic, []).append(partition)

    def assignment(self) -> GroupAssignment:
        """The answer of an assignor."""
        ids = self._subscriptions.topics
        for member, gained in self._changed.items():
            row = dict(self.held[member])
            for topic, partitions in gained.items():
                row[ids[topic]] = row.get(ids[topic], frozenset()).union(partitions)
            self.held[member] = row
        return dict(zip(self._subscriptions.members, self.held, strict=True))


def by_turns(missing: Mapping[int, int]) -> Iterator[int]:
    """Members by turns, each as often as it misses a partition: so that a topic's partitions are with many of them."""
    rest = {member: count for member, count in missing.items() if count > 0}
    while rest:
        yield from rest
        rest = {member: count - 1 for member, count in rest.items() if count > 1}
