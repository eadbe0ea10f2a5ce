"""`PYTHONPATH=tests python -m support.story_pictures`: the pictures of docs/replication.md, from what was observed.

One SVG per step: nodes are columns, partitions are rows; beside each partition what its producers and readers are told.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.story import ASSIGNMENT, NODES
from support.story_file import FILE

CELL, ROW, LEFT, TOP, MARK = 40, 20, 34, 88, 46
PANEL = LEFT + NODES * CELL + 3 * MARK + 30
GREEN, RED, GREY = "#1a7f37", "#cf222e", "#6e7781"
# fill, stroke, letter's colour
STYLES = {
    "L": ("#0969da", "#0969da", "#ffffff"),
    "I": ("#b6e3ff", "#54aeff", "#0a3069"),
    "E": ("#fff8c5", "#d4a72c", "#633c01"),
    "o": ("#eaeef2", "#afb8c1", "#57606a"),
}
Seen = Mapping[str, Any]


def text(x: float, y: float, words: str, *, fill: str = "#24292f", size: int = 12, anchor: str = "start") -> str:
    """One line of text."""
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">{words}</text>'


def letter(seen: Seen, node: int) -> str:
    """L leader, I in sync, E eligible leader replica, o neither."""
    if node == seen["leader"]:
        return "L"
    return "I" if node in seen["isr"] else "E" if node in seen["elr"] else "o"


def marks(seen: Seen) -> tuple[tuple[str, str], ...]:
    """What acks=1 and acks=all are told and whether the record is visible, each with its colour."""
    told = {"yes": ("yes", GREEN), "refused": ("no", RED), "no leader": ("waits", GREY)}
    visible = ("yes", GREEN) if seen["visible"] else ("waits", GREY)
    return told[seen["acks_1"]], told[seen["acks_all"]], visible


def panel(x: float, minimum: str, step: Mapping[str, Any]) -> Iterator[str]:
    """One topic's grid."""
    yield text(x + LEFT, TOP - 36, f"min.insync.replicas={minimum}", size=13)
    for node in range(NODES):
        alive = node in step["alive"]
        yield text(x + LEFT + (node + 0.5) * CELL, TOP - 10, f"N{node}" if alive else f"N{node} †", anchor="middle")
    for n, words in enumerate(("acks=1", "acks=all", "visible")):
        at = x + LEFT + NODES * CELL + (n + 0.5) * MARK + 12
        yield text(at, TOP - 10, words, size=10, anchor="middle", fill=GREY)
    for partition, seen in enumerate(step["topics"][minimum]):
        y = TOP + partition * ROW
        yield text(x + LEFT - 8, y + 14, f"p{partition}", size=11, anchor="end", fill=GREY)
        for node in ASSIGNMENT[partition]:
            yield from cell(x + LEFT + node * CELL, y, letter(seen, node), alive=node in step["alive"])
        for n, (words, colour) in enumerate(marks(seen)):
            at = x + LEFT + NODES * CELL + (n + 0.5) * MARK + 12
            yield text(at, y + 14, words, size=11, anchor="middle", fill=colour)


def cell(x: float, y: float, state: str, *, alive: bool) -> Iterator[str]:
    """One replica; a dead node's is crossed out."""
    fill, stroke, colour = STYLES[state]
    box = f'x="{x + 2:g}" y="{y + 1:g}" width="{CELL - 4}" height="{ROW - 3}" rx="3"'
    yield f'<rect {box} fill="{fill}" stroke="{stroke}"/>'
    yield text(x + CELL / 2, y + 14, state, size=11, anchor="middle", fill=colour)
    if not alive:
        line = f'x1="{x + 4:g}" y1="{y + ROW - 4:g}" x2="{x + CELL - 4:g}" y2="{y + 3:g}"'
        yield f'<line {line} stroke="{RED}" stroke-width="1.5"/>'


def picture(step: Mapping[str, Any]) -> str:
    """The SVG of one step."""
    minima = sorted(step["topics"])
    width, height = PANEL * len(minima) + 10, TOP + len(ASSIGNMENT) * ROW + 16
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    font = 'font-family="Helvetica, Arial, sans-serif"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>', f"<title>{step['title']}</title>"]
    lines += [f'<rect width="{width}" height="{height}" fill="#ffffff"/>', text(12, 22, step["title"], size=15)]
    for n, minimum in enumerate(minima):
        lines += panel(n * PANEL, minimum, step)
    return "\n".join([*lines, "</svg>", ""])


def pictures() -> dict[Path, str]:
    """Every file and its text. Both targets must have told the same story."""
    told = json.loads(FILE.read_text())
    assert told["kafka"] == told["tailrace"], "Apache Kafka and Tailrace told different stories"
    return {FILE.parent / f"step-{n}.svg": picture(step) for n, step in enumerate(told["kafka"])}


def write(pictures: Mapping[Path, str], arguments: Sequence[str]) -> int:
    """Writes the files; with --check says which are not as they would be written."""
    stale = [path for path, svg in pictures.items() if not path.exists() or path.read_text() != svg]
    if "--check" in arguments:
        sys.stderr.writelines(f"{path} is not what was observed\n" for path in stale)
        return int(bool(stale))
    for path, svg in pictures.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(svg)
    return 0


def main(arguments: Sequence[str]) -> int:
    """Writes the pictures; with --check says which are not what the story tells."""
    return write(pictures(), arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
