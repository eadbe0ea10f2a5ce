"""Writes values.pyi and topic_values.py from the table: `python -m tailrace.config.generate [--check]`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from tailrace.config.definition import ConfigDef, Type
from tailrace.config.definitions import DEFINITIONS, TOPIC_DEFINITIONS

_PYTHON = {
    Type.BOOLEAN: "bool",
    Type.INT: "int",
    Type.SHORT: "int",
    Type.LONG: "int",
    Type.DOUBLE: "float",
    Type.LIST: "tuple[str, ...]",
}


def annotation(definition: ConfigDef) -> str:
    """The Python type of a key's value; a key without default may be None."""
    plain = _PYTHON.get(definition.type, "str")
    return plain if definition.default is not None else f"{plain} | None"


def attributes(definitions: Iterable[ConfigDef]) -> str:
    ordered = sorted(definitions, key=lambda definition: definition.attribute)
    return "".join(f"    {definition.attribute}: {annotation(definition)}\n" for definition in ordered)


def values_stub() -> str:
    return f"""# Written by `python -m tailrace.config.generate` from the table in definitions/; do not edit.
from collections.abc import Mapping

from tailrace.config.definition import Value

class Values:
    def __init__(self, values: Mapping[str, Value]) -> None: ...

{attributes(DEFINITIONS.values())}"""


def topic_values() -> str:
    return f'''"""Written by `python -m tailrace.config.generate` from definitions/topic.py; do not edit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicValues:
    """Every topic config, typed."""

{attributes(TOPIC_DEFINITIONS.values())}'''


def main(arguments: list[str]) -> int:
    """Writes what is out of date; with --check only says so and returns 1."""
    here = Path(__file__).parent
    outdated = []
    for name, text in (("values.pyi", values_stub()), ("topic_values.py", topic_values())):
        path = here / name
        if not path.exists() or path.read_text() != text:
            outdated.append(name)
            if "--check" not in arguments:
                path.write_text(text)
    if outdated and "--check" in arguments:
        sys.stderr.write(
            f"{' and '.join(outdated)} in tailrace/config are out of date: run python -m tailrace.config.generate.\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
