"""`PYTHONPATH=tests python -m bench.quota_cost`: what a quota costs that holds nobody back.

First the relay alone, in this process: bytecodes and CPU µs of a Produce of a client without a quota and with one. Then
the CPU of all processes of a cluster for a request, without any quota, with a quota for another client, and with one
for the client itself, by turns. A turn goes forth and back; what drifts slowly cancels out. Process time, so that other
programs of the machine matter little. Writes the section of docs/quotas.md. Never fails.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from bench import client, machine, servers, topics
from bench.cells import CELLS, CONNECTIONS, Cell
from bench.pairs import WARM_UP_SECONDS, median_text
from bench.quotas import DOCUMENT
from bench.report import say
from bench.section import Section
from bench.servers import Target
from integration.quota.load import alter_quotas
from support.steps import steps
from tailrace.net.address import Address
from unit.gateway.relay.test_requests_cost import REQUESTS, passing

SECTION = Section("quota-cost", "bench.quota_cost", DOCUMENT, kafka=False)
LOAD_CLIENT = "tailrace-bench"  # the client id of tests/bench/client
RATE = 1e12
NOBODY, ANOTHER, ITSELF = STATES = ("nobody", "another-client", LOAD_CLIENT)
NAMES = ("produce 100 B", "produce 16 KiB", "fetch 1 KiB")
REPEATED, ROUNDS = 50, 21


def relay_lines() -> list[str]:
    """A table of the relay alone."""
    works = {"without a quota": passing(None)[0], "with a quota of another": passing("another")[0]}
    works["with a quota"] = passing("c")[0]
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            spent[name].append(cpu_us(work))
    lines = ["| a Produce in the relay of a gateway | bytecodes | CPU µs |", "|---|--:|--:|"]
    return lines + [
        f"| {name} | {steps(work) / REQUESTS:.0f} | {statistics.median(spent[name]):.2f} |"
        for name, work in works.items()
    ]


def cpu_us(work: Callable[[], None]) -> float:
    """CPU µs of one of the work's requests."""
    began = time.process_time()
    for _ in range(REPEATED):
        work()
    return (time.process_time() - began) / REPEATED / REQUESTS * 1e6


def limit(target: Target, whom: str) -> None:
    """Only that client has a quota now, above all that it could ask for."""

    async def alter() -> None:
        for other in (ANOTHER, ITSELF):
            rate = RATE if other == whom else None
            entity: dict[str, str | None] = {"client-id": other}
            await alter_quotas(Address.parse(target.address), entity, producer_byte_rate=rate, consumer_byte_rate=rate)

    asyncio.run(alter())


def measure(cell: Cell, target: Target, turns: int, seconds: float) -> dict[str, list[float]]:
    """Ratios of CPU for a request by whose quota there is; of `nobody` the last run to the first, what noise is."""
    options: dict[str, object] = {"connections": CONNECTIONS, "mode": cell.mode, "pin": True, **cell.options}
    if cell.mode == "fetch":
        options["fetch-max-bytes"] = topics.fill(target.address, cell)
    options |= {"seconds": seconds, "warm-up": WARM_UP_SECONDS}
    found: dict[str, list[float]] = {state: [] for state in STATES}
    for _ in range(turns):
        runs: dict[str, list[float]] = {state: [] for state in STATES}
        for state in (*STATES, *reversed(STATES)):
            limit(target, NOBODY if state == NOBODY else state)
            run = client.load(target.address, topics.topic_of(cell), options, target.pids)
            runs[state].append(float(run["server_cpu_us"]))
        found[NOBODY].append(runs[NOBODY][1] / runs[NOBODY][0])
        for state in (ANOTHER, ITSELF):
            found[state].append(sum(runs[state]) / sum(runs[NOBODY]))
    return found


def cluster_lines(targets: Sequence[Target], cells: Sequence[Cell], turns: int, seconds: float) -> list[str]:
    """A table of whole clusters: the median of each ratio and where it lies with 95 %."""
    lines = [
        "| all processes of a cluster, CPU of a request in parts of that without quotas | noise | a quota of another "
        "client | a quota of the client |",
        "|---|--:|--:|--:|",
    ]
    for cell in cells:
        for target in targets:
            found = measure(cell, target, turns, seconds)
            texts = [median_text(found[state]) for state in STATES]
            lines.append(f"| {cell.name}, {target.name} | {' | '.join(texts)} |")
            say(lines[-1])
    return lines


def main(arguments: list[str]) -> None:
    """Measures, and rewrites the section."""
    parser = SECTION.parser("Measures what quotas cost.")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one run")
    parser.add_argument("--turns", type=int, default=8, help="of six runs each")
    parser.add_argument("--cells", default="", help="only loads whose name contains this")
    options = parser.parse_args(arguments)
    lines = [*relay_lines(), ""]
    say("\n".join(lines))
    if missing := client.missing():
        say(f"no load on a cluster: {missing}")
        return
    cells = [cell for cell in CELLS if cell.name in NAMES and options.cells in cell.name]
    with ExitStack() as stack:
        folder = machine.fresh_folder(stack)
        targets = []
        for cluster in (servers.tailrace(folder), servers.relaying(folder)):
            stack.callback(cluster.stop)
            cluster.start()
            topics.create(cluster.bootstrap, tuple(cells))
            for cell in cells:
                topics.settle(cluster.bootstrap, topics.topic_of(cell))
            targets += cluster.targets()
        lines += cluster_lines(targets, cells, options.turns, options.seconds)
    SECTION.write(lines, arguments, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
