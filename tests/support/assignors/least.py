"""The least number of partitions that must move: a flow of least cost, by shortest paths. Only for small groups."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Sequence

from tailrace_coordinator.groups.assignors.spec import GroupSpec

SOURCE, SINK = "source", "sink"


class Flow:
    """A network whose arcs have room for some units, at a cost for each."""

    def __init__(self) -> None:
        self._out: dict[Hashable, list[int]] = defaultdict(list)
        self._arcs: list[tuple[Hashable, int, int]] = []  # to where, room, cost; arc n ^ 1 is the way back

    def add(self, tail: Hashable, head: Hashable, room: int, cost: int) -> None:
        """One more arc."""
        for end, other, units, price in ((tail, head, room, cost), (head, tail, 0, -cost)):
            self._out[end].append(len(self._arcs))
            self._arcs.append((other, units, price))

    def least_cost(self) -> int:
        """The cost of as many units from source to sink as there is room for."""
        total = 0
        while path := self._shortest():
            for arc in path:
                (head, room, cost), (tail, back, price) = self._arcs[arc], self._arcs[arc ^ 1]
                self._arcs[arc], self._arcs[arc ^ 1] = (head, room - 1, cost), (tail, back + 1, price)
                total += cost
        return total

    def _shortest(self) -> Sequence[int]:
        costs: dict[Hashable, int] = {SOURCE: 0}
        came: dict[Hashable, int] = {}
        line = deque[Hashable]([SOURCE])
        while line:
            tail = line.popleft()
            for arc in self._out[tail]:
                head, room, cost = self._arcs[arc]
                if room and costs[tail] + cost < costs.get(head, 1 << 62):
                    costs[head] = costs[tail] + cost
                    came[head] = arc
                    line.append(head)
        path: list[int] = []
        end: Hashable = SINK
        while end in came:
            path.append(came[end])
            end = self._arcs[came[end] ^ 1][0]
        return path


def uniform(spec: GroupSpec) -> int:
    """Of all assignments with the most equal numbers of partitions."""
    flow = Flow()
    total = sum(topic.partitions for topic in spec.topics.values())
    for topic_id, topic in spec.topics.items():
        subscribed = [id for id, member in spec.members.items() if topic_id in member.subscribed]
        if subscribed:
            flow.add(SOURCE, topic_id, topic.partitions, 0)
        for id in subscribed:
            flow.add(topic_id, id, len(spec.members[id].assigned.get(topic_id, ())), 0)
            flow.add(topic_id, id, topic.partitions, 1)
    for id in spec.members:
        for unit in range(total):
            flow.add(id, SINK, 1, unit * (total + 1))
    return flow.least_cost() % (total + 1)


def co_partitioned(spec: GroupSpec) -> int:
    """Of all assignments with equal numbers of each topic and co-partitioned topics together."""
    alike = defaultdict(list)
    for topic_id, topic in spec.topics.items():
        subscribed = tuple(id for id, member in spec.members.items() if topic_id in member.subscribed)
        if subscribed:
            alike[topic.partitions, subscribed].append(topic_id)
    return sum(_of_topics(spec, partitions, members, ids) for (partitions, members), ids in alike.items())


def _of_topics(spec: GroupSpec, partitions: int, members: Sequence[str], ids: Sequence[object]) -> int:
    flow = Flow()
    kept = Counter(
        (partition, id)
        for id in members
        for topic_id, held in spec.members[id].assigned.items()
        if topic_id in ids
        for partition in held
    )
    least, larger = divmod(partitions, len(members))
    for partition in range(partitions):
        flow.add(SOURCE, partition, 1, 0)
        for id in members:
            flow.add(partition, id, 1, len(ids) - kept[partition, id])
    for id in members:
        flow.add(id, SINK, least, 0)
        flow.add(id, "larger", 1, 0)
    flow.add("larger", SINK, larger, 0)
    return flow.least_cost()
