"""The measurement: every cell against every target in turn, three times over, medians into docs/benchmarks.md."""

import sys
from argparse import Namespace
from contextlib import ExitStack

from bench import client, command, machine, report, servers, topics
from bench.cells import CELLS, CONNECTIONS, TO_RETENTION, Cell
from bench.memory import memory
from bench.quiet import Watch
from bench.report import Row, say
from bench.servers import Target
from support import kafka_peer
from support.targets import pss_bytes

# When others took more of the machine than this, a round is repeated; the calmest rounds count.
DISTURBED = 0.05
WARM_UP_CELLS = ("produce 1 KiB", "produce 128 KiB", "fetch 16 KiB")


class Bench:
    """The started servers, their filled topics and what was measured so far."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.cells = tuple(cell for cell in CELLS if options.cells in cell.name)
        self.targets: list[Target] = []
        self.written: list[Target] = []  # hold as much as retention leaves: no cell writes to a log that still grows
        self.batch_bytes: dict[tuple[str, int], int] = {}
        self.remarks: list[str] = []
        self.rows: list[Row] = []

    def start(self, name: str, server: servers.Kafka | servers.Tailrace | servers.Relaying, stack: ExitStack) -> None:
        """Starts a server and prepares its topics; one that can't is left out with a remark."""
        say(f"starting {name}")
        try:
            stack.callback(server.stop)
            server.start()
            targets = server.targets()
            topics.create(server.bootstrap, self.cells)
            for cell in self.cells:
                self.prepare(cell, targets)
            self.targets += targets
        except Exception as reason:  # noqa: BLE001 - a benchmark reports and never fails
            self.remarks.append(f"{name} was left out: {' '.join(str(reason).split())[-300:]}")
            say(self.remarks[-1])

    def prepare(self, cell: Cell, targets: list[Target]) -> None:
        """Makes sure that the cell's topic answers, and that there is something to fetch."""
        address, topic = targets[0].address, topics.topic_of(cell)
        topics.settle(address, topic)
        if cell.mode == "produce" and targets[0] not in self.written:
            say(f"filling {topic} at {address}")
            topics.fill(address, TO_RETENTION)
            self.written.append(targets[0])
        if cell.mode == "fetch" and (targets[0].name, cell.size) not in self.batch_bytes:
            say(f"filling {topic} at {address}")
            batch_bytes = topics.fill(address, cell)
            self.batch_bytes |= {(target.name, cell.size): batch_bytes for target in targets}

    def load(self, cell: Cell, target: Target, seconds: float, warm_up: float = 0.5) -> client.Result:
        """One measurement."""
        options: dict[str, object] = {"connections": CONNECTIONS, "mode": cell.mode, "pin": True, **cell.options}
        if cell.mode == "fetch":
            options["fetch-max-bytes"] = self.batch_bytes[target.name, cell.size]
        options |= {"seconds": seconds, "warm-up": warm_up}
        watch = Watch(target.pids)
        result = client.load(target.address, topics.topic_of(cell), options, target.pids)
        return result | {"foreign_share": watch.foreign_share()}

    def warm(self) -> None:
        """Lets the JVM compile what it will run."""
        chosen = [cell for cell in self.cells if cell.name in WARM_UP_CELLS] or list(self.cells[:1])
        for target in (t for t in self.targets if t.name == "kafka"):
            say(f"warming {target.name} for {self.options.jvm_warm_up:.0f} s")
            for cell in chosen:
                self.load(cell, target, self.options.jvm_warm_up / len(chosen))

    def measure(self) -> None:
        """Fills rows, cell by cell; targets take turns, so that a slow minute of the machine meets all."""
        for cell in self.cells:
            rows = [Row(cell, target.name) for target in self.targets]
            self.rows += rows
            for number in range(2 * self.options.rounds):
                if number >= self.options.rounds and self.was_calm(rows):
                    break
                self.round(cell, rows, backwards=bool(number % 2))
            for row in rows:
                row.keep_calmest(self.options.rounds)
                say(summary(row))

    def was_calm(self, rows: list[Row]) -> bool:
        """Whether enough rounds were undisturbed."""
        return all(row.disturbance(self.options.rounds) <= DISTURBED for row in rows)

    def round(self, cell: Cell, rows: list[Row], *, backwards: bool) -> None:
        """One measurement of each target, in an order that meets nobody with what comes every so many seconds."""
        pairs = list(zip(self.targets, rows, strict=True))
        for target, row in reversed(pairs) if backwards else pairs:
            try:
                row.runs.append(self.load(cell, target, self.options.seconds))
            except client.LoadFailed as reason:
                row.failure = str(reason)

    def memory(self) -> str:
        """What the processes hold after all the load."""
        found = {target.name: sum(map(pss_bytes, target.pids)) / 2**20 for target in self.targets}
        names = {"kafka": "Kafka", "direct": "Tailrace, all processes together"}
        parts = [f"{label} {found[name]:.0f} MiB" for name, label in names.items() if name in found]
        return f"Memory after the run (PSS): {', '.join(parts)}." if parts else ""


def summary(row: Row) -> str:
    """One line of progress."""
    if not row.runs:
        return f"{row.cell.name:42s} {row.target:8s} failed: {row.failure}"
    rate, bandwidth, cpu = (row.median(k) for k in ("requests_per_second", "megabytes_per_second", "server_cpu_us"))
    return (
        f"{row.cell.name:42s} {row.target:8s} {rate:10,.0f}/s {bandwidth:8,.0f} MB/s {cpu:8.1f} µs CPU"
        f"  p50 {row.median('p50_us'):8.0f}  p99 {row.median('p99_us'):8.0f} µs"
    )


def write(bench: Bench, arguments: list[str]) -> None:
    """Rewrites the report's section."""
    command = " ".join(["PYTHONPATH=tests python -m bench", *arguments])
    memory = bench.memory()
    lines = [
        *machine.describe(),
        f"Command: `{command}` ({bench.options.rounds} rounds of {bench.options.seconds:g} s).",
    ]
    said = (
        report.client_cost(bench.rows),
        report.calm(bench.rows),
        memory,
        report.handed_over(bench.rows),
        report.spreads(bench.rows),
    )
    lines += [line for line in said if line]
    text = "\n".join([*lines, "", *bench.remarks, ""]) + report.table(bench.rows)
    report.write_section("load", text, bench.options.output)


def main(arguments: list[str]) -> None:
    """Measures what it can and says what it could not."""
    options = command.parse(arguments, "bench", "Measures Tailrace beside Apache Kafka.", jvm_warm_up=20.0)
    bench = Bench(options)
    if problem := client.missing():
        say(f"nothing to measure with: {problem}")
        return
    client.build()
    with ExitStack() as stack:
        folder = machine.fresh_folder(stack)
        if options.only != "tailrace":
            if problem := kafka_peer.missing():
                bench.remarks.append(f"Apache Kafka was left out: {problem}")
                say(bench.remarks[-1])
            else:
                bench.start("kafka", servers.kafka(folder), stack)
        if options.only != "kafka":
            bench.start("tailrace", servers.tailrace(folder), stack)
            bench.start("tailrace without hand-over", servers.relaying(folder), stack)
        memory(stack, free=options.free_memory)
        bench.warm()
        bench.measure()
        write(bench, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
