"""The assignment of a classic group by its leading member: `range`, as Kafka's RangeAssignor without racks. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

RANGE: Final = "range"


class Subscriber(NamedTuple):
    """A member of the group and the topics that it wants to read."""

    member_id: str
    instance_id: str | None
    topics: Iterable[str]


def assign(members: Iterable[Subscriber], counts: Mapping[str, int]) -> dict[str, list[tuple[str, int]]]:
    """The (topic, partition) pairs of each member, by member id; a topic without a count has no partitions.

    Of each topic every subscriber gets a range, static members (KIP-345) first, the first ones one more.
    """
    shares: dict[str, list[tuple[str, int]]] = {}
    subscribers: dict[str, list[str]] = defaultdict(list)
    for member in sorted(members, key=lambda one: (one.instance_id is None, one.instance_id or "", one.member_id)):
        shares[member.member_id] = []
        for topic in member.topics:
            subscribers[topic].append(member.member_id)
    for topic in sorted(subscribers):
        first = 0
        each, larger = divmod(counts.get(topic, 0), len(subscribers[topic]))
        for place, member_id in enumerate(subscribers[topic]):
            behind = first + each + (place < larger)
            shares[member_id] += ((topic, partition) for partition in range(first, behind))
            first = behind
    return shares
