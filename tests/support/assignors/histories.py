"""Groups that members join and leave, and whose topics come, grow and go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from uuid import UUID

from tailrace_coordinator.groups.assignors.spec import GroupAssignment, GroupSpec, MemberSpec, TopicSpec

_FIRST = 7 << 64
EVENTS = ("join", "leave", "subscribe", "topic", "partitions", "deletion")


@dataclass(frozen=True)
class Shape:
    """The largest numbers of a history; `alike`: all members subscribe to the same topics."""

    members: int
    topics: int
    partitions: int
    alike: bool


def history(rng: Random, shape: Shape, steps: int) -> Iterator[tuple[str, GroupSpec]]:
    """The group after each event, with the kind of the event; the members have no partitions yet."""
    members: dict[str, MemberSpec] = {}
    topics = {topic_id(number): _topic(rng, shape) for number in range(rng.randint(1, shape.topics))}
    made, joined = len(topics), 0

    def subscription() -> frozenset[UUID]:
        if shape.alike:
            return frozenset(topics)
        return frozenset(id for id in sorted(topics) if rng.random() < 0.6)

    for _ in range(rng.randint(1, shape.members)):
        members[f"member-{joined}"] = MemberSpec(subscription())
        joined += 1
    yield "first", GroupSpec(dict(members), dict(topics))
    for _ in range(steps):
        event = rng.choice(EVENTS)
        if event == "join" and len(members) < shape.members:
            members[f"member-{joined}"] = MemberSpec(subscription())
            joined += 1
        elif event == "leave" and len(members) > 1:
            del members[rng.choice(sorted(members))]
        elif event == "subscribe" and not shape.alike:
            members[rng.choice(sorted(members))] = MemberSpec(subscription())
        elif event == "topic" and len(topics) < shape.topics:
            topics[topic_id(made)] = _topic(rng, shape)
            for id in sorted(members):
                if shape.alike or rng.random() < 0.5:
                    members[id] = MemberSpec(members[id].subscribed | {topic_id(made)})
            made += 1
        elif event == "partitions":
            grown = rng.choice(sorted(topics))
            topics[grown] = TopicSpec(min(shape.partitions, topics[grown].partitions + rng.randint(1, 4)))
        elif event == "deletion" and len(topics) > 1:
            gone = rng.choice(sorted(topics))
            del topics[gone]
            members = {id: MemberSpec(member.subscribed - {gone}) for id, member in members.items()}
        else:
            continue
        yield event, GroupSpec(dict(members), dict(topics))


def topic_id(number: int) -> UUID:
    """The id of the topic with that number."""
    return UUID(int=_FIRST + number)


def topic_number(id: UUID) -> int:
    """The number of the topic with that id."""
    return id.int - _FIRST


def _topic(rng: Random, shape: Shape) -> TopicSpec:
    return TopicSpec(rng.randint(1, shape.partitions))


def with_assigned(spec: GroupSpec, present: GroupAssignment) -> GroupSpec:
    """The group as the next assignor finds it: its members have their partitions, of topics that are there."""
    members = {}
    for id, member in spec.members.items():
        held = present.get(id, {})
        members[id] = replace(member, assigned={topic: held[topic] for topic in held if topic in spec.topics})
    return GroupSpec(members, spec.topics)
