"""`PYTHONPATH=tests python -m bench.coordinators`: one of two coordinators is killed, its groups go on with the other.

Each of the groups has one member of the consumer protocol. A round commits an offset for each group of one coordinator,
kills that one with SIGKILL, and asks for all of its groups by heartbeat until each is answered without an error. Then
the coordinator comes back and has half of the shards again. No member may be fenced, and no offset lost.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from argparse import Namespace
from dataclasses import dataclass, field
from typing import Final

from bench import startup
from bench.failover import percentile
from bench.quiet import Watch
from bench.report import say
from bench.section import Section
from support.group_beats import Beats, Member, are_spread, commit, committed, join, make_topic, owners
from support.raw import Raw
from support.waiting import until
from tailrace.state import partition_for
from tailrace.testing import Cluster

SECTION = Section("coordinators", "bench.coordinators", kafka=False)
TOPIC: Final = "t"
COORDINATORS: Final = (0, 1)
SHARDS: Final = 50  # offsets.topic.num.partitions


@dataclass
class Outcome:
    """What all rounds showed; times in ms since the kill."""

    groups: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)  # the last group of each round
    lost: int = 0
    fenced: int = 0
    loads: list[float] = field(default_factory=list)


def one_round(cluster: Cluster, raw: Raw, beats: Beats, members: list[Member], number: int, outcome: Outcome) -> None:
    """Kills one of the coordinators, and returns when both serve again."""
    victim = COORDINATORS[number % len(COORDINATORS)]
    until(lambda: are_spread(cluster.data_dir, COORDINATORS), "the shards are spread")
    owned = owners(cluster.data_dir)
    its = [each for each in members if owned[partition_for(each.group_id, len(owned))] == victim]
    outcome.fenced += sum(code != 0 for code in beats.codes(members))
    commit(raw, its, TOPIC, number)
    mark, pid = cluster.now, cluster.process_id("coordinator", victim)
    began = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    answered = beats.until_answered(its)
    times = [(at - began) * 1000 for at in answered.values()]
    outcome.groups += times
    outcome.last.append(max(times))
    outcome.loads.append(os.getloadavg()[0])
    outcome.lost += sum(offset != number for offset in committed(raw, its, TOPIC))
    cluster.wait_for("ready", "coordinator", victim, since=mark)
    say(f"round {number + 1}: {len(its)} groups, p50 {statistics.median(times):.0f} ms, last {max(times):.0f} ms")


def measure(options: Namespace) -> list[str]:
    """All rounds, as a table."""
    outcome = Outcome()
    with Cluster(arguments=["--coordinators", str(len(COORDINATORS))]) as cluster:
        cluster.create_topic(TOPIC)
        with startup.connect(cluster.bootstrap) as raw, Beats(cluster.bootstrap, SHARDS) as beats:
            make_topic(raw)
            members = [
                join(raw, f"group-{number:05}", f"member-{number:05}", [TOPIC]) for number in range(options.groups)
            ]
            watch = Watch([])
            for number in range(options.rounds):
                one_round(cluster, raw, beats, members, number, outcome)
            busy = watch.foreign_share()
    load = f"Load average of the machine {statistics.median(outcome.loads):.0f} (1 minute, median)"
    return [
        "| after SIGKILL of its coordinator | p50 ms | p90 ms | p99 ms | max ms |",
        "|---|--:|--:|--:|--:|",
        line("a group's next answered heartbeat", outcome.groups),
        line("the last group of a round", outcome.last),
        "",
        f"{options.rounds} rounds, {options.groups:,} groups, {len(outcome.groups):,} heartbeats. "
        f"Offsets lost: {outcome.lost}; members fenced: {outcome.fenced}.",
        f"{load}, its processors busy {busy:.0%} of the time.",
    ]


def line(name: str, times: list[float]) -> str:
    """A row of the table."""
    figures = statistics.median(times), percentile(times, 0.9), percentile(times, 0.99), max(times)
    return f"| {name} | {' | '.join(f'{figure:.0f}' for figure in figures)} |"


def main(arguments: list[str]) -> None:
    """Measures, and rewrites the section."""
    parser = SECTION.parser("Measures how long groups are without a coordinator.")
    parser.add_argument("--rounds", type=int, default=100, help="kills of a coordinator, in turn")
    parser.add_argument("--groups", type=int, default=1_000, help="groups of one member each")
    options = parser.parse_args(arguments)
    SECTION.write(measure(options), arguments, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
