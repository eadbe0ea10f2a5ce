"""`./test [LAYER...] [pytest options]`: runs the layers side by side, and says what was left out.

REQUIRE_ALL=1 makes a left-out layer, and a skip that tests/skips.txt does not explain, a failure.
TEST_SEED=N is the seed of the order of tests and of Hypothesis; without it a run draws one, and its commands show it.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from support.layers import part, slots, slowest
from support.layers.part import Part, Result
from support.layers.table import LAYERS, pytest_command
from support.layers.tools import Engine, Preparation


def usage() -> str:
    rows = [f"  {name:12} {layer.about}" for name, layer in LAYERS.items()]
    return "./test [LAYER...] [pytest options]\nAll but bench where none is named:\n" + "\n".join(rows)


def choose(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The layers named first, and the rest for pytest."""
    count = next((at for at, word in enumerate(arguments) if word not in LAYERS), len(arguments))
    names, options = list(arguments[:count]), list(arguments[count:])
    if not names and options and not options[0].startswith("-"):
        raise SystemExit(f"{options[0]} is not a layer.\n{usage()}")
    return names or [name for name, layer in LAYERS.items() if layer.default], options


def parts_of(name: str, options: Sequence[str]) -> list[Part]:
    """The parts of a layer; what has options is seldom a whole layer, and is one part."""
    layer = LAYERS[name]
    where = layer.tests or (f"tests/{name}",)
    if layer.commands:
        rows = [(*row[:-1], (*row[-1], *options)) if name == "bench" else row for row in layer.commands]
    elif options or not layer.apart:
        rows = [(pytest_command(*where, *options),)]
    else:
        ignored = (f"--ignore={place}" for group in layer.apart for place in group)
        rows = [(pytest_command(*where, *ignored),), *((pytest_command(*group),) for group in layer.apart)]
    return [Part(name, row, number if len(rows) > 1 else 0) for number, row in enumerate(rows, 1)]


def end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main(arguments: Sequence[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        print(usage())
        return 0
    names, options = choose(arguments)
    parts = [found for name in names for found in parts_of(name, options)]
    count = min(slots.COUNT, len(parts))
    signal.signal(signal.SIGTERM, end)
    with ExitStack() as stack:
        times = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="test-times-"))) / "times.tsv"
        preparation = Preparation(Engine(stack) if any(LAYERS[name].engine for name in names) else None)

        def run(chosen: Part, slot: int) -> Result:
            layer = LAYERS[chosen.layer]
            preparation.of(chosen.layer, layer)
            own = {"TEST_PORTS": part.ports(slot, count), slowest.VARIABLE: str(times)}
            return part.run(chosen, {**os.environ, **own}, live=len(parts) == 1)

        results = slots.run_all(parts, count, run, part.end_all)
        return report(results, preparation.left_out, slowest.table(times))


def report(results: Sequence[Result], prepared: dict[str, str | None], slow: Sequence[str]) -> int:
    left_out = {name: line for name, line in prepared.items() if line is not None}
    part.say("the slowest files", *slow)
    ordered = sorted(results, key=lambda result: list(LAYERS).index(result.part.layer))
    part.say("result", *(result.row for result in ordered))
    for result in ordered:
        for command in result.failed:
            print(f"failed: {command}")
    for name, line in left_out.items():
        print(f"left out in {name}; this would install it: {line}")
    print(part.total(results))
    failed = any(result.failed for result in results)
    return 1 if failed or (os.environ.get("REQUIRE_ALL") == "1" and left_out) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
