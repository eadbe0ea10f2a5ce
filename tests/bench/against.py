"""What a request costs Tailrace against Apache Kafka, where an aim is set: short runs of both by turns.

Kafka, then Tailrace direct, handed over and relayed (each second round the other way round), then Kafka again: pairs.py
says how the runs are compared. The long runs of `python -m bench` show the figures themselves; on a machine that is
shared, their ratios move by a quarter from one run to the next.
"""

import sys
from contextlib import ExitStack
from pathlib import Path

from bench import client, machine, pairs, report, servers
from bench.pairs import CPU, RATE, Ratios
from bench.report import say
from bench.run import Bench, fresh_folder
from support import kafka_peer

HEADER = "| | requests/s | 95 % range | control | aim | | CPU/request | 95 % range | control | aim | |"


def line(row: Ratios) -> str:
    """A row of the table: the rate with its aim, the CPU with its own."""
    least, most = row.cell.aim(row.target), row.cell.aim_cpu if row.target == "direct" else None
    cells = [f"{row.cell.name}, {row.target}"]
    for key, aim in ((RATE, least), (CPU, most)):
        cells += [*pairs.figures(row, key), f"{aim:g}" if aim else report.NOTHING]
        cells.append(verdict(row, key, aim) if aim and row.measured[key] else report.NOTHING)
    return f"| {' | '.join(cells)} |"


def verdict(row: Ratios, key: str, aim: float) -> str:
    """Kept, missed or open."""
    return pairs.verdict(row, least_rate=aim) if key == RATE else pairs.verdict(row, most_cpu=aim)


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
        folder = fresh_folder(stack, options.folder)
        kind = machine.filesystem(folder)
        bench = Bench(options)
        bench.cells = tuple(cell for cell in bench.cells if cell.has_aim)
        bench.start("kafka", servers.kafka(folder), stack)
        bench.start("tailrace", servers.tailrace(folder), stack)
        bench.start("tailrace without hand-over", servers.relaying(folder), stack)
        bench.warm()
        kafka = [target for target in bench.targets if target.name == "kafka"]
        others = [target for target in bench.targets if target.name != "kafka"]
        rows = pairs.measure(bench, kafka[0], others, options) if kafka and others else []
    command = " ".join(["PYTHONPATH=tests python -m bench.against", *arguments])
    runs = f"{options.turns * options.rounds} runs of {options.seconds:g} s a row, logs on {kind}"
    head = [*machine.describe(), f"Command: `{command}` ({runs}).", "", *bench.remarks, ""]
    table = [HEADER, "|---" + "|--:" * 4 + "|---" + "|--:" * 4 + "|---|", *map(line, rows)]
    report.write_section(f"against {kind}", "\n".join([*head, *table]), options.output)
    say("\n".join(table))


if __name__ == "__main__":
    main(sys.argv[1:])
