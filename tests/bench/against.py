"""What a request costs Tailrace against Apache Kafka, where an aim is set: short runs of both by turns.

Kafka, then Tailrace direct, handed over and relayed (each second round the other way round), then Kafka again: pairs.py
says how the runs are compared. The long runs of `python -m bench` show the figures themselves; on a machine that is
shared, their ratios move by a quarter from one run to the next.
"""

import sys
from contextlib import ExitStack
from pathlib import Path

from bench import client, machine, pairs, report, servers
from bench.memory import memory
from bench.pairs import CPU, RATE, Ratios
from bench.report import say
from bench.run import Bench
from support import kafka_peer

HEADER = "| | requests/s | 95 % range | control | aim | | CPU/request | 95 % range | control | aim | |"


def line(row: Ratios) -> str:
    """A row of the table: the rate with its aim, the CPU with its own."""
    least, most = row.cell.aim(row.target), row.cell.aim_cpu if row.target == "direct" else None
    rate = [*pairs.figures(row, RATE), aimed(least), pairs.verdict(row, least_rate=least)]
    cost = [*pairs.figures(row, CPU), aimed(most), pairs.verdict(row, most_cpu=most)]
    return f"| {' | '.join([f'{row.cell.name}, {row.target}', *rate, *cost])} |"


def aimed(aim: float | None) -> str:
    """An aim's cell."""
    return report.NOTHING if aim is None else f"{aim:g}"


def main(arguments: list[str]) -> None:
    """Measures, and rewrites the section."""
    parser = pairs.parser("bench.against", __doc__ or "", turns=2, seconds=1.0)
    parser.add_argument("--jvm-warm-up", type=float, default=20.0, help="seconds of load before the first run")
    parser.add_argument("--folder", type=Path, help="where the servers keep their data; tmpfs if not said")
    options = parser.parse_args(arguments)
    if problem := client.missing() or kafka_peer.missing():
        say(f"nothing to compare: {problem}")
        return
    with ExitStack() as stack:
        folder = machine.fresh_folder(stack, options.folder)
        kind = machine.filesystem(folder)
        bench = Bench(options)
        bench.cells = tuple(cell for cell in bench.cells if cell.has_aim)
        bench.start("kafka", servers.kafka(folder), stack)
        bench.start("tailrace", servers.tailrace(folder), stack)
        bench.start("tailrace without hand-over", servers.relaying(folder), stack)
        memory(stack, free=options.free_memory)
        bench.warm()
        kafka = [target for target in bench.targets if target.name == "kafka"]
        others = [target for target in bench.targets if target.name != "kafka"]
        rows = pairs.measure(bench, kafka[0], others, options) if kafka and others else []
    runs = f"{options.turns * options.rounds} runs of {options.seconds:g} s a row, logs on {kind}"
    table = [HEADER, "|---" + "|--:" * 4 + "|---" + "|--:" * 4 + "|---|", *map(line, rows)]
    pairs.publish(f"against {kind}", bench, " ".join(["bench.against", *arguments]), runs, table)


if __name__ == "__main__":
    main(sys.argv[1:])
