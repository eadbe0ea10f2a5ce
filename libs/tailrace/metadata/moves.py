"""Where replicas go when a broker is to be empty or topics are spread again: plans for AlterPartitionReassignments.

Pure: from replica lists and racks to replica lists. Only partitions that change are in a plan.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from tailrace.wire.limits import pages

Partition: TypeAlias = tuple[str, int]  # topic name, partition id
Replicas: TypeAlias = tuple[int, ...]
Racks: TypeAlias = Mapping[int, str | None]  # broker id -> rack, of the brokers that may take replicas
Plan: TypeAlias = dict[Partition, Replicas]
_Value = TypeVar("_Value")


class NoRoom(Exception):
    """A plan is impossible; the text is a sentence for an operator."""


class Copied(NamedTuple):
    """Bytes of the copies under way, and what they will be when they are whole."""

    copied_bytes: int
    total_bytes: int


def copied(whole_bytes: int, copies_bytes: Iterable[int]) -> Copied:
    """How far a partition's new replicas are; one that has more than its leader (it is to be cut) counts as whole."""
    sizes = [min(size, whole_bytes) for size in copies_bytes]
    return Copied(sum(sizes), whole_bytes * len(sizes))


def drained(partitions: Mapping[Partition, Replicas], racks: Racks, leaving: int, *, shrink: bool = False) -> Plan:
    """Moves every replica off one broker; the newcomer takes its place in the list, so preferred leaders stay spread.

    A broker of a rack that the partition has not got yet comes first, then the one with the fewest (first) replicas.
    Raises NoRoom where no broker is left for a partition, unless `shrink` allows it one replica fewer.
    """
    takers = {node: rack for node, rack in racks.items() if node != leaving}
    held = Counter(node for replicas in partitions.values() for node in replicas)
    led = Counter(replicas[0] for replicas in partitions.values() if replicas)
    plan: Plan = {}
    for partition, replicas in sorted(partitions.items()):
        if leaving not in replicas:
            continue
        place = replicas.index(leaving)
        there = {takers.get(node) for node in replicas if node != leaving}
        free = [node for node in takers if node not in replicas]
        if not free:
            if not shrink or len(replicas) == 1:
                raise NoRoom(_no_room(partition, replicas, leaving))
            plan[partition] = tuple(node for node in replicas if node != leaving)
            led[plan[partition][0]] += place == 0
            continue
        load = led if place == 0 else held
        taker = min(free, key=lambda node: (takers[node] in there, load[node], held[node], node))
        plan[partition] = (*replicas[:place], taker, *replicas[place + 1 :])
        held[taker] += 1
        led[taker] += place == 0
    return plan


def _no_room(partition: Partition, replicas: Replicas, leaving: int) -> str:
    count = f"{len(replicas)} replica{'' if len(replicas) == 1 else 's'}"
    return (
        f"{partition[0]}-{partition[1]} has {count} and no other broker is left for the one on broker {leaving}: add a "
        "broker, or allow one replica fewer (--shrink, over HTTP ?shrink=true) where more than one is left."
    )


def spread(topics: Mapping[str, Sequence[Replicas]], racks: Racks, replication_factor: int | None = None) -> Plan:
    """Spreads topics again over these brokers: partition p on N(p), N(p+1) …, with neighbours in different racks.

    The replication factor stays each partition's own unless one is given. Raises NoRoom when there are fewer brokers.
    """
    nodes = by_rack(racks)
    plan: Plan = {}
    for number, (topic, partitions) in enumerate(sorted(topics.items())):
        for index, old in enumerate(partitions):
            count = replication_factor or len(old)
            if count > len(nodes):
                raise NoRoom(f"{topic}-{index} is to have {count} replicas, but there are {len(nodes)} brokers.")
            new = tuple(nodes[(number + index + step) % len(nodes)] for step in range(count))
            if new != tuple(old):
                plan[topic, index] = new
    return plan


def by_rack(racks: Racks) -> list[int]:
    """The brokers in an order in which neighbours are of different racks as long as there are any."""
    groups: dict[str, list[int]] = {}
    for node, rack in sorted(racks.items()):
        groups.setdefault(rack or "", []).append(node)
    left = [groups[rack] for rack in sorted(groups)]
    order: list[int] = []
    while left:
        for group in left:
            order.append(group.pop(0))
        left = [group for group in left if group]
    return order


def by_topic(plan: Mapping[Partition, _Value]) -> list[tuple[str, list[tuple[int, _Value]]]]:
    """The same, topic by topic, in order."""
    topics: dict[str, list[tuple[int, _Value]]] = {}
    for name, index in sorted(plan):
        topics.setdefault(name, []).append((index, plan[name, index]))
    return list(topics.items())


def portions(plan: Mapping[Partition, _Value]) -> Iterator[list[tuple[str, list[tuple[int, _Value]]]]]:
    """The same, in parts for a request each: what goes beyond 10,000 is refused, and others wait for each."""
    for keys in pages(sorted(plan)):
        yield by_topic({key: plan[key] for key in keys})
