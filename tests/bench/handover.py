"""What the way by the gateway costs a client whose socket is handed over, against the same broker's own listener.

Direct, handed over, direct: pairs.py says how the runs are compared.
"""

import sys
from contextlib import ExitStack

from bench import client, machine, pairs, servers
from bench.memory import memory
from bench.pairs import CPU, RATE, Ratios
from bench.report import say
from bench.run import Bench

LEAST_RATE, MOST_CPU = 0.95, 1.05
HEADER = "| | requests/s | 95 % range | control | CPU/request | 95 % range | control | aim |"


def line(row: Ratios) -> str:
    """A row of the table."""
    return f"| {' | '.join([row.cell.name, *pairs.figures(row, RATE), *pairs.figures(row, CPU), verdict(row)])} |"


def verdict(row: Ratios) -> str:
    """Whether the way by the gateway costs next to nothing."""
    return pairs.verdict(row, least_rate=LEAST_RATE, most_cpu=MOST_CPU)


def main(arguments: list[str]) -> None:
    """Measures, and rewrites the section."""
    options = pairs.parser("bench.handover", __doc__ or "", turns=4, seconds=0.6).parse_args(arguments)
    if problem := client.missing():
        say(f"nothing to measure with: {problem}")
        return
    with ExitStack() as stack:
        folder = machine.fresh_folder(stack)
        bench = Bench(options)
        bench.start("tailrace", servers.tailrace(folder), stack)
        memory(stack, free=options.free_memory)
        rows = []
        if bench.targets:
            direct, handed_over = (next(t for t in bench.targets if t.name == name) for name in ("direct", "handover"))
            rows = pairs.measure(bench, direct, [handed_over], options)
    runs = f"{options.turns * options.rounds} triples of {options.seconds:g} s runs a cell"
    table = [HEADER, "|---" + "|--:" * 7 + "|", *map(line, rows)]
    pairs.publish("handover", bench, " ".join(["bench.handover", *arguments]), runs, table)


if __name__ == "__main__":
    main(sys.argv[1:])
