"""The most equal numbers of partitions that different subscriptions allow, with few moves from the present ones.

A flow from topics to members. Numbers are as equal as they can be when no chain of moves (a partition of one topic from
a member to a second one, of another topic from there to a third, ...) leads to a member with two partitions less.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence, Set

MOST_SEARCHES = 100  # one takes a millisecond in a group of 1,000 members; more partitions first move topic by topic

Move = tuple[int, int, int]  # from a member, a partition of the topic, to a member


class Balance:
    """How many partitions of each topic each member holds; members and topics are numbers."""

    __slots__ = ("_gave", "_held", "_loads", "_present", "_subscribers")

    def __init__(self, present: Sequence[Mapping[int, int]], subscribers: Sequence[frozenset[int]]) -> None:
        self._present = present
        self._held = [dict(row) for row in present]
        self._loads = [sum(row.values()) for row in present]
        self._subscribers = subscribers
        self._gave: list[set[int]] = [set() for _ in subscribers]  # members that have less of the topic than before

    def changes(self) -> list[dict[int, int]]:
        """For each topic the members that get more of it than they had, and those that get less."""
        changes: list[dict[int, int]] = [{} for _ in self._subscribers]
        for member, (held, present) in enumerate(zip(self._held, self._present, strict=True)):
            if held != present:
                for topic in held:
                    if change := held[topic] - present.get(topic, 0):
                        changes[topic][member] = change
        return changes

    def fill(self, free: Sequence[int]) -> None:
        """Gives free partitions of each topic to the least loaded subscribers; topics with few subscribers first."""
        subscribers, heap = frozenset[int](), list[tuple[int, int]]()
        first = {members: topic for topic, members in reversed(list(enumerate(self._subscribers)))}
        keys = [(len(members), first[members]) for members in self._subscribers]
        for topic in sorted(range(len(free)), key=keys.__getitem__):
            if free[topic] and subscribers is not self._subscribers[topic]:
                subscribers = self._subscribers[topic]
                heap = [(self._loads[member], member) for member in subscribers]
                heapq.heapify(heap)
            for _ in range(free[topic]):
                load, member = heap[0]
                heapq.heapreplace(heap, (load + 1, member))
                self._loads[member] = load + 1
                self._held[member][topic] = self._held[member].get(topic, 0) + 1

    def level(self) -> None:
        """Moves partitions until no chain leads from a member to one that holds at least two less."""
        above = -(-sum(self._loads) // len(self._loads))
        if sum(load - above for load in self._loads if load > above) > MOST_SEARCHES:
            for topic in range(len(self._subscribers)):
                self._level_topic(topic)
        closed: set[int] = set()
        while rest := [member for member in range(len(self._loads)) if member not in closed]:
            most = max(self._loads[member] for member in rest)
            sources = {member for member in rest if self._loads[member] == most}
            reached = closed | sources
            chain = self._chain(sources, reached, most - 2)
            for move in chain:
                self._move(*move)
            if not chain:
                closed = reached

    def settle(self) -> None:
        """Takes back moves without which the numbers are as equal: a greedy fill makes some."""
        for topic, gave in enumerate(self._gave):
            while gave and (chain := self._needless(topic)):
                for move in chain:
                    self._move(*move)

    def _needless(self, topic: int) -> Sequence[Move]:
        """Moves that give a partition of the topic back to a member that gave one, and make no new move on the way."""
        gave, loads = self._gave[topic], self._loads
        got = {member for member in self._subscribers[topic] if self._gain(member, topic) > 0}
        by_load = {loads[member] - 1: member for member in got}  # who ends the chain then has as much as this one had
        for member in gave:
            if (giver := by_load.get(loads[member])) is not None:
                return [(giver, topic, member)]
        came: dict[int, Move] = {}
        if got:
            for giver, other, takers in self._hops(set(gave), set(gave), new_moves=False):
                for taker in takers:
                    came[taker] = giver, other, taker
                    end = taker if taker in got else by_load.get(loads[taker])
                    if end is not None:
                        chain = _back(came, taker)
                        return [*chain, (end, topic, chain[-1][0])]
        return ()

    def _gain(self, member: int, topic: int) -> int:
        return self._held[member].get(topic, 0) - self._present[member].get(topic, 0)

    def _level_topic(self, topic: int) -> None:
        """Moves partitions of one topic from the most to the least loaded of its subscribers."""
        loads, members = self._loads, self._subscribers[topic]
        givers = [(-loads[member], member) for member in members if self._held[member].get(topic)]
        if not givers or -min(givers)[0] - min(loads[member] for member in members) < 2:
            return
        takers = [(loads[member], member) for member in members]
        heapq.heapify(givers)
        heapq.heapify(takers)
        while givers and -givers[0][0] - takers[0][0] >= 2:
            _, giver = heapq.heappop(givers)
            _, taker = heapq.heappop(takers)
            self._move(giver, topic, taker)
            heapq.heappush(takers, (loads[taker], taker))
            if self._held[giver][topic]:
                heapq.heappush(givers, (-loads[giver], giver))

    def _move(self, giver: int, topic: int, taker: int) -> None:
        for member, change in ((giver, -1), (taker, 1)):
            count = self._held[member].get(topic, 0) + change
            self._held[member][topic] = count
            self._loads[member] += change
            if count < self._present[member].get(topic, 0):
                self._gave[topic].add(member)
            else:
                self._gave[topic].discard(member)

    def _chain(self, sources: set[int], reached: set[int], enough: int) -> Sequence[Move]:
        """The chain with the fewest new moves to a member with no more than enough, its last move first."""
        came: dict[int, Move] = {}
        for giver, topic, takers in self._hops(sources, reached):
            for taker in takers:
                came[taker] = giver, topic, taker
                if self._loads[taker] <= enough:
                    return _back(came, taker)
        return ()

    def _hops(
        self, sources: set[int], reached: set[int], *, new_moves: bool = True
    ) -> Iterator[tuple[int, int, Set[int]]]:
        """The members that become reachable by each topic, those with the fewest new moves first.

        What a member has got just now goes on without a new move, and what it gave just now comes back without one.
        """
        layer = list(sources)
        opened: set[int] = set()
        while layer:
            later: dict[int, int] = {}
            for giver in layer:  # which grows meanwhile
                for topic, count in self._held[giver].items():
                    if count and topic not in opened:
                        if count > self._present[giver].get(topic, 0):
                            opened.add(topic)
                            takers: Set[int] = self._subscribers[topic] - reached
                        else:
                            later.setdefault(topic, giver)
                            takers = self._gave[topic] - reached
                        reached |= takers
                        layer += takers
                        yield giver, topic, takers
            layer = []
            for topic in (later.keys() - opened) if new_moves else ():
                opened.add(topic)
                takers = self._subscribers[topic] - reached
                reached |= takers
                layer += takers
                yield later[topic], topic, takers


def _back(came: Mapping[int, Move], taker: int) -> list[Move]:
    """The chain that ends at a member, its last move first."""
    chain = [came[taker]]
    while (move := came.get(chain[-1][0])) is not None:
        chain.append(move)
    return chain
