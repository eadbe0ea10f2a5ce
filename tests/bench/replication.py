"""`PYTHONPATH=tests python -m bench.replication`: acks=all and acks=1 on three brokers, three replicas, beside Kafka.

What counts is requests per CPU-second of all processes: brokers, controller and gateway share the machine's cores.
"""

import statistics
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack

from kafka.admin import KafkaAdminClient

from bench import client, command, machine, report, servers, topics
from bench.cells import CONNECTIONS, PARTITIONS, REPLICATED_CELLS, Cell
from bench.memory import memory
from bench.quiet import Watch
from bench.report import Row, say
from bench.run import DISTURBED
from bench.servers import BROKERS, Target
from support import kafka_peer
from support.kafka_nodes import KafkaNodes
from support.ports import HOST
from support.tailrace_nodes import TailraceNodes

TOPIC = "bench-replicated"
RECYCLE = {"log_retention_check_interval_ms": "1000", "log_initial_task_delay_ms": "1000"}
HEADER = "| | requests per CPU-s | x Kafka | aim | requests/s | x Kafka | spread | MB/s | p50 µs | p99 µs |"

MAKERS: dict[str, Callable[..., KafkaNodes | TailraceNodes]] = {
    "kafka": servers.three_kafkas,
    "tailrace": servers.three_tailraces,
}


def create(nodes: KafkaNodes | TailraceNodes) -> None:
    """The topic; returns when all of its partitions take records."""
    admin = KafkaAdminClient(bootstrap_servers=nodes.bootstrap)
    configs = {**topics.RECYCLED, "min.insync.replicas": "2"}
    try:
        rows = {"num_partitions": PARTITIONS, "replication_factor": BROKERS, "configs": configs}
        admin.create_topics({TOPIC: rows})
    finally:
        admin.close()
    topics.settle(f"{HOST}:{nodes.port}", TOPIC, pin=False)


def load(cell: Cell, target: Target, seconds: float, warm_up: float = 0.5) -> client.Result:
    """One measurement. Connections go where Metadata says the leaders are."""
    options: dict[str, object] = {"connections": CONNECTIONS, "mode": cell.mode, **cell.options}
    watch = Watch(target.pids)
    result = client.load(target.address, TOPIC, {**options, "seconds": seconds, "warm-up": warm_up}, target.pids)
    return result | {"foreign_share": watch.foreign_share()}


def measure(cell: Cell, targets: list[Target], options: Namespace) -> list[Row]:
    """One row per target; they take turns, and rounds in which others used the machine are repeated once."""
    rows = [Row(cell, target.name) for target in targets]
    for attempt in range(2 * options.rounds):
        if attempt >= options.rounds and all(row.disturbance(options.rounds) <= DISTURBED for row in rows):
            break
        for target, row in zip(targets, rows, strict=True):
            try:
                row.runs.append(load(cell, target, options.seconds))
            except client.LoadFailed as reason:
                row.failure = str(reason)
    for row in rows:
        row.keep_calmest(options.rounds)
        say(line(row, None))
    return rows


def per_cpu_second(row: Row) -> float:
    """Requests for which all processes of the target together worked one second."""
    return 1e6 / max(row.median("server_cpu_us"), 0.01)


def line(row: Row, kafka: Row | None) -> str:
    """A line of the table."""
    if not row.runs:
        return f"| {row.target} | failed: {row.failure} |" + "  |" * 8
    by_cpu = by_rate = report.NOTHING
    aim = row.cell.aim(row.target)
    if kafka is not None and kafka.runs and kafka is not row:
        ratio = per_cpu_second(row) / per_cpu_second(kafka)
        by_cpu = f"**{ratio:.2f}**" if aim and ratio >= aim else f"{ratio:.2f}"
        if "rate" not in row.cell.options:
            by_rate = f"{row.median('requests_per_second') / kafka.median('requests_per_second'):.2f}"
    figures = [f"{per_cpu_second(row):,.0f}", by_cpu, f"{aim:.1f}" if aim else report.NOTHING]
    figures += [f"{row.median('requests_per_second'):,.0f}", by_rate, f"{row.spread:.0%}"]
    figures += [f"{row.median(key):,.0f}" for key in ("megabytes_per_second", "p50_us", "p99_us")]
    return " | ".join([f"| {row.target}", *figures]) + " |"


def table(cells: list[list[Row]]) -> str:
    """A bold line per cell, below it a line per target."""
    lines = [HEADER, "|---" + "|--:" * 9 + "|"]
    for rows in cells:
        kafka = next((row for row in rows if row.target == "kafka"), None)
        lines.append(f"| **{rows[0].cell.name}**" + " |" * 10)
        lines += [line(row, kafka) for row in rows]
    return "\n".join(lines)


def write(cells: list[list[Row]], remarks: list[str], arguments: list[str], options: Namespace) -> None:
    """Rewrites the report's section."""
    rows = [row for each in cells for row in each]
    shares = [float(run["foreign_share"]) for row in rows for run in row.runs]
    command = " ".join(["PYTHONPATH=tests python -m bench.replication", *arguments])
    lines = [*machine.describe(), f"Command: `{command}` ({options.rounds} rounds of {options.seconds:g} s)."]
    if shares:
        lines.append(f"Others used {statistics.median(shares):.0%} of the machine in the median run.")
    report.write_section("replication", "\n".join([*lines, "", *remarks, ""]) + table(cells), options.output)


def main(arguments: list[str]) -> None:
    """Measures what it can and says what it could not."""
    options = command.parse(arguments, "bench.replication", "Measures three brokers.", jvm_warm_up=40.0)
    if problem := client.missing():
        say(f"nothing to measure with: {problem}")
        return
    client.build()
    remarks: list[str] = []
    targets: list[Target] = []
    cells = [cell for cell in REPLICATED_CELLS if options.cells in cell.name]
    with ExitStack() as stack:
        folder = machine.fresh_folder(stack)
        for name, make in MAKERS.items():
            if options.only not in (None, name):
                continue
            if name == "kafka" and (problem := kafka_peer.missing()):
                remarks.append(f"Apache Kafka was left out: {problem}")
                continue
            say(f"starting {name}")
            nodes = make(folder, **RECYCLE)
            stack.enter_context(nodes)
            create(nodes)
            targets += servers.targets_of(nodes)
        memory(stack, free=options.free_memory)
        for target in (target for target in targets if target.name == "kafka"):
            say(f"warming {target.name} for {options.jvm_warm_up:.0f} s")
            for cell in cells[:2]:
                load(cell, target, options.jvm_warm_up / 2)
        write([measure(cell, targets, options) for cell in cells], remarks, arguments, options)


if __name__ == "__main__":
    main(sys.argv[1:])
