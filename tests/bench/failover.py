"""`PYTHONPATH=tests python -m bench.failover --rounds 100`: a leader under load is killed; RF 3, min ISR 2.

A librdkafka producer sends a record every 2 ms. A round kills the partition's leader and measures the longest time
without an acknowledged record; then the broker comes back and all three are in sync again. At the end all is read back:
what was acknowledged must be there, once and in order (with acks=1, what only the dead leader had may be gone).
"""

from __future__ import annotations

import statistics
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import machine, report, servers
from bench.pulse import IDEMPOTENT, LEADER_ONLY, ONE_BY_ONE, Pulse
from bench.report import say
from support import kafka_peer
from support.kafka_nodes import KafkaNodes
from support.load import check, check_order, read_all
from support.replicated import Replicated, create
from support.tailrace_nodes import TailraceNodes

HEADER = "| | rounds | p50 ms | p99 ms | max ms | min ms | acknowledged | lost | twice | order |"
SETTLED = 200  # acknowledgements between two rounds
AFTER = 50  # after the first acknowledgement from the new leader


@dataclass(frozen=True)
class Case:
    """One cluster and one producer."""

    name: str
    cluster: Callable[..., KafkaNodes | TailraceNodes]
    producer: Mapping[str, Any]
    session_ms: int


@dataclass
class Outcome:
    """What a case showed."""

    case: Case
    silences: list[float] = field(default_factory=list)
    acknowledged: int = 0
    lost: int = 0
    twice: int = 0
    in_order: bool = True
    failure: str = ""


def parse(arguments: list[str]) -> Namespace:
    """The command line."""
    parser = ArgumentParser(prog="python -m bench.failover", description="Measures failover. Never fails.")
    parser.add_argument("--rounds", type=int, default=100, help="kills of a leader, for Tailrace's idempotent producer")
    parser.add_argument("--variant-rounds", type=int, help="for its other producers; default: a quarter of --rounds")
    parser.add_argument("--kafka-rounds", type=int, default=5, help="for each case of Apache Kafka, ten seconds each")
    parser.add_argument("--only", choices=("kafka", "tailrace"), help="leave the other out")
    parser.add_argument("--output", type=Path, default=report.DOCUMENT, help="the report to rewrite")
    return parser.parse_args(arguments)


def cases(options: Namespace) -> list[tuple[Case, int]]:
    """What is measured, and in how many rounds."""
    ours, kafka = servers.three_tailraces, servers.three_kafkas
    variants = options.variant_rounds if options.variant_rounds is not None else max(1, options.rounds // 4)
    rows = [
        (Case("Tailrace, idempotent, acks=all", ours, IDEMPOTENT, 9000), options.rounds),
        (Case("Tailrace, not idempotent, acks=all", ours, ONE_BY_ONE, 9000), variants),
        (Case("Tailrace, not idempotent, acks=1", ours, LEADER_ONLY, 9000), variants),
        (Case("Kafka, idempotent, acks=all, session 9 s", kafka, IDEMPOTENT, 9000), options.kafka_rounds),
        (Case("Kafka, idempotent, acks=all, session 2 s", kafka, IDEMPOTENT, 2000), options.kafka_rounds),
        (Case("Kafka, not idempotent, acks=1, session 9 s", kafka, LEADER_ONLY, 9000), options.kafka_rounds),
    ]
    wanted = {"kafka": (kafka,), "tailrace": (ours,)}.get(options.only, (ours, kafka))
    return [(case, rounds) for case, rounds in rows if case.cluster in wanted and rounds > 0]


def measure(case: Case, rounds: int, folder: Path) -> Outcome:
    """Starts the case's cluster and kills its leader again and again."""
    outcome = Outcome(case)
    session = {"broker_session_timeout_ms": str(case.session_ms)}
    if case.session_ms < servers.SHORT_SESSION_MS:
        session["broker_heartbeat_interval_ms"] = str(case.session_ms // 4)
    with case.cluster(folder, **session) as nodes:
        nodes.wait_for_all()
        topic = create(nodes, [0, 1, 2], word="failover", min_insync_replicas="2")
        with Pulse(nodes.bootstrap, topic.name, case.producer) as pulse:
            pulse.wait_for(5 * SETTLED)
            for number in range(rounds):
                outcome.silences.append(kill_leader(topic, pulse))
                say(f"{case.name}: round {number + 1} of {rounds}: {outcome.silences[-1]:,.0f} ms")
        found = read_all(nodes.bootstrap, topic.name)
        judge(outcome, pulse, found)
    return outcome


def kill_leader(topic: Replicated, pulse: Pulse) -> float:
    """One round; milliseconds without an acknowledged record."""
    leader = topic.state().leader
    pulse.wait_for(SETTLED)
    beat = pulse.beats
    topic.nodes.kill(leader)
    topic.wait(lambda state: state.leader not in {leader, -1}, "a new leader", timeout_s=60)
    pulse.wait_for(AFTER)
    silence = pulse.silence_since(beat)
    topic.nodes.start_node(leader)
    topic.wait_for_isr(*topic.nodes.ids)
    return silence.milliseconds


def judge(outcome: Outcome, pulse: Pulse, found: dict[int, list[tuple[int, int]]]) -> None:
    """Counts what is not where it was promised, what is there twice, and looks at the order."""
    at = {offset: value for rows in found.values() for offset, value in rows}
    values = [value for rows in found.values() for _, value in rows]
    acknowledged = pulse.promised.acknowledged
    outcome.acknowledged = len(acknowledged)
    outcome.lost = sum(at.get(offset) != number for number, (_, offset) in acknowledged.items())
    outcome.twice = len(values) - len(set(values))
    try:
        check_order(found)
        if outcome.case.producer is IDEMPOTENT:
            check(pulse.promised, found)
    except AssertionError as wrong:
        outcome.in_order = "order" not in str(wrong)
        outcome.failure = str(wrong)[:200]
    if pulse.promised.failed:
        outcome.failure = f"{len(pulse.promised.failed)} sends failed, the first: {pulse.promised.failed[0]}"


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 100) * len(ordered) // 100) - 1))]


def line(outcome: Outcome) -> str:
    """A line of the table."""
    if not outcome.silences:
        return f"| {outcome.case.name} | failed: {outcome.failure} |" + "  |" * 8
    figures = [statistics.median(outcome.silences), percentile(outcome.silences, 0.99)]
    figures += [max(outcome.silences), min(outcome.silences)]
    counts = [
        f"{outcome.acknowledged:,}",
        str(outcome.lost),
        str(outcome.twice),
        "kept" if outcome.in_order else "LOST",
    ]
    cells = [f"| {outcome.case.name}", str(len(outcome.silences)), *(f"{figure:,.0f}" for figure in figures), *counts]
    return " | ".join(cells) + " |"


def write(outcomes: list[Outcome], remarks: list[str], arguments: list[str], options: Namespace) -> None:
    """Rewrites the report's section."""
    command = " ".join(["PYTHONPATH=tests python -m bench.failover", *arguments])
    table = [HEADER, "|---" + "|--:" * 9 + "|", *map(line, outcomes)]
    failures = [f"{outcome.case.name}: {outcome.failure}" for outcome in outcomes if outcome.failure]
    text = "\n".join([*machine.describe(), f"Command: `{command}`.", *remarks, *failures, "", *table])
    report.write_section("failover", text, options.output)


def main(arguments: list[str]) -> None:
    """Measures what it can and says what it could not."""
    options = parse(arguments)
    remarks: list[str] = []
    outcomes: list[Outcome] = []
    for case, rounds in cases(options):
        if case.cluster is servers.three_kafkas and (problem := kafka_peer.missing()):
            remarks.append(f"{case.name} was left out: {problem}")
            continue
        with ExitStack() as stack:
            folder = machine.fresh_folder(stack)
            try:
                outcomes.append(measure(case, rounds, folder))
            except Exception as reason:  # noqa: BLE001 - a benchmark reports and never fails
                outcomes.append(Outcome(case, failure=" ".join(str(reason).split())[-300:]))
            say(line(outcomes[-1]))
    write(outcomes, remarks, arguments, options)


if __name__ == "__main__":
    main(sys.argv[1:])
