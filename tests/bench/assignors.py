"""`PYTHONPATH=tests python -m bench.assignors`: how many partitions the assignors move, beside Apache Kafka's classes.

Random histories of groups, by seed; then the time of 1,000 members and 10,000 partitions. Rewrites a section of
docs/benchmarks.md.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from random import Random

from bench import report
from bench.section import Section
from support.assignors import least
from support.assignors.histories import Shape, history, topic_id, with_assigned
from support.assignors.kafka import KafkaAssignors
from support.assignors.measures import loads, moved
from support.kafka_peer import VERSION
from tailrace_coordinator.groups.assignors.assignors import ASSIGNORS
from tailrace_coordinator.groups.assignors.spec import Assignor, GroupAssignment, GroupSpec, MemberSpec, TopicSpec

SECTION = Section("assignors", "bench.assignors", kafka=False)
LEAST = {"uniform": least.uniform, "range": least.co_partitioned}
KINDS = {True: "all topics", False: "different topics"}
SHOWN = {"join": "a member joins", "leave": "a member leaves", "subscribe": "a member changes its topics"}
TOPICS = {"topic": "a topic is made", "partitions": "a topic grows", "deletion": "a topic is deleted"}
MEMBERS, PARTITIONS, ROUNDS = 1_000, 10_000, 40


def squares(spec: GroupSpec, assigned: GroupAssignment) -> int:
    """How unequal the numbers of partitions are: the least sum of squares is the most equal."""
    return sum(count * count for count in loads(spec, assigned))


class Figures:
    """What the histories of one assignor and one kind of subscriptions add up to."""

    def __init__(self) -> None:
        self.steps = Counter[str]()
        self.moved = Counter[tuple[str, str]]()
        self.compared = Counter[str]()

    def add(self, event: str, ours: int, possible: int, kafkas: int) -> None:
        """One step of both histories."""
        self.steps[event] += 1
        self.moved.update({("ours", event): ours, ("least", event): possible, ("kafka", event): kafkas})

    def compare(self, spec: GroupSpec, ours: GroupAssignment, kafkas: GroupAssignment) -> None:
        """Both assignments where Kafka's is the present one."""
        more = moved(spec, ours) - moved(spec, kafkas)
        worse = squares(spec, ours) - squares(spec, kafkas)
        self.compared.update(steps=1, fewer=more < 0, more=more > 0, equal=more > 0 and worse >= 0)
        self.compared.update(better=worse < 0, worse=worse > 0)


def measure(name: str, assign: Assignor, alike: bool, histories: int, kafka: KafkaAssignors) -> Figures:
    """The histories of one row."""
    figures = Figures()
    for seed in range(histories):
        rng = Random(seed)
        shape = Shape(rng.randint(2, 12), rng.randint(1, 6), rng.choice((4, 12)), alike)
        ours: GroupAssignment = {}
        kafkas: GroupAssignment = {}
        for event, group in history(rng, shape, steps=12):
            mine, theirs = with_assigned(group, ours), with_assigned(group, kafkas)
            ours, (kafkas, _) = assign(mine), kafka.assign(name, theirs)
            figures.add(event, moved(mine, ours), LEAST[name](mine), moved(theirs, kafkas))
            figures.compare(theirs, assign(theirs), kafkas)
    return figures


def moves_table(rows: dict[tuple[str, bool], Figures]) -> Iterator[str]:
    """Partitions that move for each event."""
    yield "| partitions that move, on average | subscriptions | steps | least possible | Tailrace | Kafka |"
    yield "|---|---|--:|--:|--:|--:|"
    for (name, alike), figures in rows.items():
        for event, text in (SHOWN | TOPICS).items():
            if steps := figures.steps[event]:
                counts = (f"{figures.moved[who, event] / steps:.3f}" for who in ("least", "ours", "kafka"))
                yield f"| {name}: {text} | {KINDS[alike]} | {steps:,} | {' | '.join(counts)} |"


def comparison_table(rows: dict[tuple[str, bool], Figures]) -> Iterator[str]:
    """The same steps from the same present assignment, Kafka's."""
    yield "| from Kafka's | subscriptions | steps | fewer move | more | more for nothing | more equal | less |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|"
    for (name, alike), figures in rows.items():
        counts = (f"{figures.compared[key]:,}" for key in ("steps", "fewer", "more", "equal", "better", "worse"))
        yield f"| {name} | {KINDS[alike]} | {' | '.join(counts)} |"


def large(kind: str) -> GroupSpec:
    """A group of 1,000 members and 10,000 partitions of 100 topics."""
    rng = Random(1)
    topics = {topic_id(number): TopicSpec(PARTITIONS // 100) for number in range(100)}
    wanted = {"all topics": [100], "all or half": [50, 100], "a third, at random": [33]}[kind]
    sample = rng.sample if kind == "a third, at random" else lambda topics, count: topics[:count]
    subscribed = [frozenset(sample(list(topics), rng.choice(wanted))) for _ in range(MEMBERS)]
    return GroupSpec({f"member-{number:04}": MemberSpec(subscribed[number]) for number in range(MEMBERS)}, topics)


def fastest_ms(assign: Assignor, spec: GroupSpec) -> tuple[GroupAssignment, float]:
    """The assignment and the CPU of the fastest of some rounds."""
    costs = []
    for _ in range(5):
        begin = time.thread_time()
        assigned = assign(spec)
        costs.append(time.thread_time() - begin)
    return assigned, min(costs) * 1000


def times_table(kafka: KafkaAssignors) -> Iterator[str]:
    """The CPU of one assignment."""
    yield f"| CPU, ms ({MEMBERS:,} members, {PARTITIONS:,} partitions) | subscriptions | Tailrace | Kafka | ratio |"
    yield "|---|---|--:|--:|--:|"
    for name, assign in ASSIGNORS.items():
        for kind in ("all topics", "all or half", "a third, at random"):
            group = large(kind)
            first, _ = kafka.assign(name, group)
            fewer = dict(group.members)
            del fewer["member-0007"]
            left = with_assigned(GroupSpec(fewer, group.topics), first)
            for text, spec in (("first assignment", group), ("a member leaves", left)):
                _, ours = fastest_ms(assign, spec)
                kafkas = kafka.assign(name, spec, ROUNDS)[1] * 1000
                yield f"| {name}: {text} | {kind} | {ours:.1f} | {kafkas:.1f} | {ours / kafkas:.0f} |"


def main(arguments: list[str]) -> None:
    """Measures, and writes the section."""
    parser = SECTION.parser("Partitions that assignors move, and their time, beside Apache Kafka's.")
    parser.add_argument(
        "--histories", type=int, default=1000, help="random histories for each row, of 13 steps at most"
    )
    options = parser.parse_args(arguments)
    rows = {}
    with KafkaAssignors() as kafka:
        for name, assign in ASSIGNORS.items():
            for alike in (True, False):
                report.say(f"{name}, {KINDS[alike]}")
                rows[name, alike] = measure(name, assign, alike, options.histories, kafka)
        tables = [*moves_table(rows), "", *comparison_table(rows), "", *times_table(kafka)]
    SECTION.write(tables, arguments, options.output, f"Kafka's classes are those of {VERSION}.")


if __name__ == "__main__":
    main(sys.argv[1:])
