"""The most equal numbers of partitions that different subscriptions allow, with few moves from the present ones.

A flow from topics to members. An assignment is as equal as it can be when no chain of moves (a partition of one topic
from a member to a second one, of another topic from there to a third, ...) leads to a member with two partitions less.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

Move = tuple[int, UUID, int]  # a partition of the topic, from one member to another


class Balance:
    """How many partitions of each topic each member holds; members are numbers."""

    __slots__ = ("_free", "_held", "_loads", "_present", "_subscribers")

    def __init__(self, owners: Mapping[UUID, Sequence[int]], subscribers: Mapping[UUID, Sequence[int]]) -> None:
        self._subscribers = subscribers
        members = {index for found in subscribers.values() for index in found}
        self._held: dict[int, Counter[UUID]] = {index: Counter() for index in members}
        self._free: Counter[UUID] = Counter()
        for topic_id, of_topic in owners.items():
            for index, count in Counter(of_topic).items():
                if index in self._held:
                    self._held[index][topic_id] = count
                else:
                    self._free[topic_id] = count
        self._present = {index: dict(held) for index, held in self._held.items()}
        self._loads = {index: held.total() for index, held in self._held.items()}

    def held_of(self, topic_id: UUID) -> dict[int, int]:
        """The number of the topic's partitions that each of its subscribers holds."""
        return {index: self._held[index][topic_id] for index in self._subscribers[topic_id]}

    def fill(self) -> None:
        """Gives each partition without an owner to the least loaded subscriber; topics with few subscribers first."""
        for topic_id in sorted(self._free, key=lambda id: (len(self._subscribers[id]), id)):
            heap = [(self._loads[index], index) for index in self._subscribers[topic_id]]
            heapq.heapify(heap)
            for _ in range(self._free[topic_id]):
                load, index = heap[0]
                heapq.heapreplace(heap, (load + 1, index))
                self._held[index][topic_id] += 1
                self._loads[index] = load + 1

    def level(self) -> None:
        """Moves partitions until no chain leads from a member to one that holds at least two less."""
        closed: set[int] = set()
        while rest := [index for index in self._held if index not in closed]:
            most = max(self._loads[index] for index in rest)
            sources = [index for index in rest if self._loads[index] == most]
            reached, chain = self._search(sources, most - 2, closed)
            for source, topic_id, target in chain:
                self._held[source][topic_id] -= 1
                self._held[target][topic_id] += 1
            if chain:
                self._loads[chain[-1][0]] -= 1
                self._loads[chain[0][2]] += 1
            else:
                closed |= reached

    def _search(self, sources: Sequence[int], enough: int, closed: set[int]) -> tuple[set[int], list[Move]]:
        """The members that chains from the sources reach, and the shortest chain to one with no more than enough."""
        came: dict[int, Move] = {}
        reached = set(sources)
        topics: set[UUID] = set()
        line = list(sources)
        for source in line:
            for topic_id in self._given_first(source):
                if topic_id in topics:
                    continue
                topics.add(topic_id)
                for target in self._subscribers[topic_id]:
                    if target in reached or target in closed:
                        continue
                    reached.add(target)
                    came[target] = (source, topic_id, target)
                    if self._loads[target] <= enough:
                        return reached, _back(came, target)
                    line.append(target)
        return reached, []

    def _given_first(self, index: int) -> list[UUID]:
        """The topics of which the member holds partitions; first those that it has got just now, which cost no move."""
        present = self._present[index]
        held = [(topic_id, count) for topic_id, count in self._held[index].items() if count]
        return [id for id, _ in sorted(held, key=lambda row: row[1] <= present.get(row[0], 0))]


def _back(came: Mapping[int, Move], target: int) -> list[Move]:
    """The chain that ends at the target, its last move first."""
    chain: list[Move] = []
    while target in came:
        chain.append(came[target])
        target = came[target][0]
    return chain
