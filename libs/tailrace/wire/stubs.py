"""Writes descriptors/__init__.pyi, the types of our own messages, and the ceilings of docs/limits.md, in a checkout.

`python -m tailrace.wire.stubs [--check]`; the gate checks that both are current. kafka-python ships such stubs for its
own classes and the generator that made them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kafka.protocol.generate_stubs import emit_class

from tailrace.wire import descriptors
from tailrace.wire.apis import INTERNAL_APIS
from tailrace.wire.limits import CLOSED, DEFAULT, EXCEPTIONS

_HEAD = """# Written by python -m tailrace.wire.stubs
import uuid
from typing import Any

from kafka.protocol.api_data import ApiData
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.data_container import DataContainer
"""


def render() -> str:
    """The stub's text for every message class in the descriptors package."""
    lines = [_HEAD]
    for name, value in sorted(vars(descriptors).items()):
        if name.endswith(("Request", "Response")):
            lines += ["", *emit_class(value), ""]
    return "\n".join(lines).replace("-> dict:", "-> dict[str, Any]:")


_BEGIN = "<!-- Written by `python -m tailrace.wire.stubs` from libs/tailrace/wire/limits.tsv; do not edit. -->\n"
_END = "<!-- The end of what is written. -->\n"


def ceilings() -> str:
    """A table of the lists that have another ceiling than the rule says."""
    rows: dict[tuple[str, int, str], list[str]] = {}
    for (key, path), (most, above) in EXCEPTIONS.items():
        rows.setdefault((INTERNAL_APIS[key].name, most, above), []).append(_in_words(path))
    lines = [f"| {api} | {', '.join(paths)} | {most:,} | {above} |" for (api, most, above), paths in rows.items()]
    head = ["| API | lists | most rows | above |", "|---|---|---|---|"]
    others = [
        f"| the others of clients | all | {DEFAULT:,} | INVALID_REQUEST |",
        f"| Produce, Fetch, and those between services | all | {DEFAULT:,} | {CLOSED} |",
    ]
    return "\n".join((*head, *others, *lines, ""))


def _in_words(path: str) -> str:
    return " of ".join(f"`{name}`" for name in reversed(path.split(".")))


def with_ceilings(page: str) -> str:
    """docs/limits.md with the table of now."""
    before, _, rest = page.partition(_BEGIN)
    _, _, behind = rest.partition(_END)
    return f"{before}{_BEGIN}\n{ceilings()}\n{_END}{behind}"


def targets() -> list[tuple[Path, str]]:
    """What is written where."""
    stub = Path(descriptors.__file__).with_suffix(".pyi")
    page = Path(__file__).parents[3] / "docs" / "limits.md"
    return [(stub, render()), *([(page, with_ceilings(page.read_text()))] if page.exists() else [])]


def main() -> int:
    """Writes what is out of date; with --check only says so and returns 1."""
    outdated = [(path, text) for path, text in targets() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        if outdated:
            names = " and ".join(path.name for path, _ in outdated)
            sys.stderr.write(f"Out of date: {names}. Run python -m tailrace.wire.stubs.\n")
        return 1 if outdated else 0
    for path, text in outdated:
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
