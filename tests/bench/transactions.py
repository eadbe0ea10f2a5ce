"""`PYTHONPATH=tests python -m bench.transactions`: transactions beside Apache Kafka in the same run, by turns.

One librdkafka producer begins a transaction, sends its records of 100 bytes to the partitions in turn, and commits.
There is one broker on either side. A round is Kafka, then Tailrace; the figures are medians of the rounds.
"""

from __future__ import annotations

import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench import machine, report, servers
from bench.failover import percentile
from bench.quiet import process_seconds
from bench.report import say
from bench.section import Section
from bench.servers import Target
from support import kafka_peer

SECTION = Section("transactions", "bench.transactions")
RECORDS = (1, 10, 100, 1_000)
PARTITIONS = (1, 10)
VALUE = b"x" * 100
WARM_UP = 30  # transactions
AIM = 1.0  # of Kafka's transactions/s
HEADER = (
    "| records | partitions | Kafka: transactions/s | commit p50 ms | p99 | CPU ms | Tailrace: transactions/s "
    "| commit p50 ms | p99 | CPU ms | x Kafka | aim |"
)


@dataclass(frozen=True)
class Cell:
    """One size of a transaction."""

    records: int
    partitions: int


@dataclass
class Runs:
    """A cell against one target, a figure for each round; commits are in milliseconds, all rounds together."""

    rates: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)  # of all the target's processes, for each transaction
    commits: list[float] = field(default_factory=list)
    failure: str = ""

    def cells(self) -> list[str]:
        """Four cells of the table."""
        if not self.rates:
            return [f"failed: {self.failure}", "", "", ""]
        latencies = [statistics.median(self.commits), percentile(self.commits, 0.99)]
        return [
            f"{statistics.median(self.rates):,.0f}",
            *(f"{one:.1f}" for one in latencies),
            f"{statistics.median(self.cpu_ms):.2f}",
        ]


def cpu_ms(pids: Sequence[int]) -> float:
    """What these processes have used so far."""
    return sum(map(process_seconds, pids)) * 1000


def producer(target: Target, cell: Cell) -> Producer:
    """One that has its producer id."""
    made = Producer(
        {
            "bootstrap.servers": target.address,
            "transactional.id": f"bench-{cell.records}-{cell.partitions}",
            "linger.ms": 0,
        }
    )
    made.init_transactions(30)
    return made


def transact(made: Producer, cell: Cell) -> float:
    """One transaction; how many milliseconds its commit took. The commit waits for the records, too."""
    made.begin_transaction()
    for number in range(cell.records):
        made.produce(f"bench-{cell.partitions}", VALUE, partition=number % cell.partitions)
    made.flush(30)
    began = time.perf_counter()
    made.commit_transaction(30)
    return (time.perf_counter() - began) * 1000


def load(made: Producer, target: Target, cell: Cell, seconds: float, runs: Runs) -> None:
    """One round: transactions one after another."""
    before, began = cpu_ms(target.pids), time.perf_counter()
    commits: list[float] = []
    while time.perf_counter() - began < seconds:
        commits.append(transact(made, cell))
    elapsed = time.perf_counter() - began
    runs.rates.append(len(commits) / elapsed)
    runs.cpu_ms.append((cpu_ms(target.pids) - before) / len(commits))
    runs.commits += commits


def create(target: Target) -> None:
    """A topic for each number of partitions."""
    admin = AdminClient({"bootstrap.servers": target.address})
    for one in admin.create_topics([NewTopic(f"bench-{count}", count, 1) for count in PARTITIONS]).values():
        one.result(30)


def measure(cell: Cell, targets: Sequence[Target], options: Namespace) -> dict[str, Runs]:
    """All rounds of a cell, the targets by turns."""
    found = {target.name: Runs() for target in targets}
    producers: dict[str, Producer] = {}
    for number in range(options.rounds):
        for target in targets if number % 2 else targets[::-1]:
            try:
                if target.name not in producers:
                    producers[target.name] = producer(target, cell)
                    for _ in range(WARM_UP):
                        transact(producers[target.name], cell)
                load(producers[target.name], target, cell, options.seconds, found[target.name])
            except Exception as reason:  # noqa: BLE001 - a benchmark reports and never fails
                producers.pop(target.name, None)
                found[target.name].failure = " ".join(str(reason).split())[-200:]
    return found


def line(cell: Cell, found: dict[str, Runs]) -> str:
    """A line of the table."""
    kafka, tailrace = found["kafka"], found["direct"]
    ratio = verdict = report.NOTHING
    if kafka.rates and tailrace.rates:
        times = statistics.median(tailrace.rates) / statistics.median(kafka.rates)
        ratio, verdict = f"{times:.2f}", "kept" if times >= AIM else "missed"
    cells = [str(cell.records), str(cell.partitions), *kafka.cells(), *tailrace.cells(), ratio, f"{AIM:g}: {verdict}"]
    return f"| {' | '.join(cells)} |"


def main(arguments: list[str]) -> None:
    """Measures, and rewrites the section."""
    parser = SECTION.parser("Measures transactions.")
    parser.add_argument("--rounds", type=int, default=5, help="of each cell and target")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a round")
    options = parser.parse_args(arguments)
    if problem := kafka_peer.missing():
        say(f"nothing to compare with: {problem}")
        return
    table = [HEADER, "|--:" * 11 + "|---|"]
    with ExitStack() as stack:
        folder = machine.fresh_folder(stack)
        targets = []
        for server in (servers.kafka(folder), servers.tailrace(folder)):
            stack.callback(server.stop)
            server.start()
            targets.append(server.targets()[0])
            create(targets[-1])
        for cell in [Cell(records, count) for count in PARTITIONS for records in RECORDS]:
            table.append(line(cell, measure(cell, targets, options)))
            say(table[-1])
    runs = f"{options.rounds} rounds of {options.seconds:g} s a cell and target."
    SECTION.write(table, arguments, options.output, runs)


if __name__ == "__main__":
    main(sys.argv[1:])
