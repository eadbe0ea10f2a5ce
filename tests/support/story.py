"""The textbook's story, told to a cluster: what every partition answers after each death and each return.

Four nodes, 12 partitions, three replicas: partition p on N(p), N(p+1), N(p+2). One topic asks for two in-sync replicas,
the other for three. `tell` does it and answers what was observed; nothing here knows what the answers should be.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from support.nodes import Nodes
from support.replicated import Replicated, create
from support.waiting import until

NODES, PARTITIONS, REPLICAS = 4, 12, 3
ASSIGNMENT = tuple(tuple((p + n) % NODES for n in range(REPLICAS)) for p in range(PARTITIONS))
MINIMA = (2, 3)
WORDS = {0: "yes", 19: "refused", 6: "no leader"}


@dataclass(frozen=True)
class Seen:
    """One partition at one step. acks_1 and acks_all: yes, refused or no leader; visible: an acks=1 record is read."""

    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    acks_1: str
    acks_all: str
    visible: bool


@dataclass(frozen=True)
class Step:
    """What happened, who is alive, and then every partition of each topic by its min.insync.replicas."""

    title: str
    alive: tuple[int, ...]
    waited: str
    topics: Mapping[int, tuple[Seen, ...]]


@dataclass(frozen=True)
class Story:
    """What was seen, and at its end, by min.insync.replicas: acks=all records acknowledged, and how many are there."""

    steps: tuple[Step, ...]
    kept: Mapping[int, tuple[int, int]]


def tell(nodes: Nodes) -> Story:
    """The whole story; afterwards all nodes live."""
    topics = {n: create(nodes, *ASSIGNMENT, word=f"story-{n}", min_insync_replicas=str(n)) for n in MINIMA}
    steps = tuple(_steps(nodes, topics))
    kept = {}
    for minimum, topic in topics.items():
        acknowledged = sum(seen.acks_all == "yes" for step in steps for seen in step.topics[minimum])
        found = sum(value == b"all" for p in range(PARTITIONS) for _, value in topic.read(partition=p))
        kept[minimum] = (acknowledged, found)
    return Story(steps, kept)


def _steps(nodes: Nodes, topics: Mapping[int, Replicated]) -> Iterator[Step]:
    def look(title: str, waited: str = "") -> Step:
        seen = {n: tuple(_look(topic, p) for p in range(PARTITIONS)) for n, topic in topics.items()}
        return Step(title, tuple(nodes.live()), waited, seen)

    yield look("All four nodes are alive")
    with topics[2].producing(b"in time", partition=0, node=0, timeout_ms=20_000) as pending:
        assert pending.answer().error_code == 0
    nodes.kill(3)
    with topics[2].producing(b"waits", partition=1, node=1, timeout_ms=20_000) as pending:
        waited = WORDS[pending.answer().error_code]
    _settle(topics)
    yield look("Node 3 dies", waited)
    nodes.kill(2)
    _settle(topics)
    yield look("Node 2 dies too")
    nodes.kill(0)
    _settle(topics)
    yield look("Node 0 dies: nobody is left of partition 2, which lived on 2, 3 and 0")
    for back, title in (
        (3, "Node 3 is back: it left partition 2's ISR first"),
        (2, "Node 2 is back: it left second"),
        (0, "Node 0 is back: the last member of partition 2's ISR"),
    ):
        nodes.start_node(back)
        _settle(topics)
        yield look(title)


def _settle(topics: Mapping[int, Replicated]) -> None:
    """Waits until the controller and the leaders have drawn every conclusion: each ISR is as large as it can be."""
    for topic in topics.values():
        alive = set(topic.nodes.live())
        for partition, replicas in enumerate(ASSIGNMENT):
            wanted = alive & set(replicas)
            state = topic.wait(
                lambda s, wanted=wanted: (s.leader == -1 and not s.isr) or s.isr == wanted,  # type: ignore[misc]
                f"the ISR {wanted}, or none",
                partition,
            )
            if state.leader >= 0:
                until(functools.partial(_leads, topic, partition, state.leader), f"leader {state.leader} knows it")


def _leads(topic: Replicated, partition: int, node: int) -> bool:
    """A node can tell in Metadata that it leads before it acts as the leader."""
    return bool(topic.epoch_end(0, node=node, partition=partition).error_code == 0)


def _look(topic: Replicated, partition: int) -> Seen:
    """Asks the partition with acks=all, then with acks=1, then reads what it acknowledged."""
    state = topic.state(partition)
    at = state.leader if state.leader >= 0 else topic.nodes.live()[0]
    strict = topic.produce(b"all", partition=partition, node=at)
    loose = topic.produce(b"one", partition=partition, node=at, acks=1)
    return Seen(
        leader=state.leader,
        isr=tuple(sorted(state.isr)),
        elr=tuple(sorted(state.elr)),
        acks_1=WORDS[loose.error_code],
        acks_all=WORDS[strict.error_code],
        visible=loose.error_code == 0 and _visible(topic, partition, loose.base_offset, len(state.isr)),
    )


def _visible(topic: Replicated, partition: int, offset: int, in_sync: int) -> bool:
    """Whether the record can be read. One that can be is soon; one that cannot would be asked for in vain for ever."""
    minimum = int(topic.name.split("-")[1])
    if in_sync >= minimum:
        until(lambda: bool(topic.fetch(offset, partition=partition).records), "the record")
    return bool(topic.fetch(offset, partition=partition).records)


def as_json(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """For a file."""
    return [asdict(step) for step in steps]
