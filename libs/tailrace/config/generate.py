"""Writes values.pyi, topic_values.py and, in a checkout, docs/configuration.md from the table.

`python -m tailrace.config.generate [--check]`; the gate checks that all are current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from tailrace.config.definition import ConfigDef, ConfigScope, Dynamic, Type
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
    return f"""# Written by `python -m tailrace.config.generate` from kafka.tsv and ours.tsv; do not edit.
from collections.abc import Mapping

from tailrace.config.validators import Value

class Values:
    def __init__(self, values: Mapping[str, Value]) -> None: ...

{attributes(DEFINITIONS.values())}"""


def topic_values() -> str:
    return f'''"""Written by `python -m tailrace.config.generate` from kafka.tsv; do not edit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicValues:
    """Every topic config, typed."""

{attributes(TOPIC_DEFINITIONS.values())}'''


_PAGE = """# Configuration

<!-- Written by `python -m tailrace.config.generate` from libs/tailrace/config/kafka.tsv and ours.tsv; do not edit. -->

For operators that set config keys. Tailrace looks for a key on the command line (`--set KEY=VALUE`), then in the
environment, then in the file (`--config FILE`, in the syntax of Kafka's `server.properties`). Otherwise the default
below holds. In the environment `min.insync.replicas` is `KAFKA_MIN_INSYNC_REPLICAS` and `gateway.port` is
`TAILRACE_GATEWAY_PORT`. A wrong value is refused, and the message names the allowed values. An unknown key on the
command line is refused, and the message names the nearest key. Elsewhere an unknown key is a warning.

A password, and a URL that holds one, is refused on the command line, which every user of the machine can read. Clients
are answered null for every password and URL.

A value can come from another file, as Kubernetes and Docker mount secrets (KIP-297). With `config.providers=directory`,
`${directory:/run/secrets:redis}` in a value is what the file `/run/secrets/redis` holds. With `config.providers=file`,
`${file:/etc/stores.properties:redis}` is a key of a .properties file. A reference may stand on the command line. Files
are read at the start. In a URL a password has its `@` and `/` as `%40` and `%2F`.

Keys marked with * can be changed while the cluster runs, for all brokers or for one, with `tailrace config` or any
client; topic keys always can. Every other key of Kafka 4.4.0 is accepted and described too, and has no effect:
[compatibility.md](compatibility.md) lists them. Where some are set, one line says so at the start: `tailrace up` prints
it once for the whole cluster, a role that is started alone logs it.
"""


def page() -> str:
    """The keys that have an effect, for users."""
    honoured = [definition for definition in DEFINITIONS.values() if definition.honoured]
    ours = [definition for definition in honoured if definition.scope is ConfigScope.OURS]
    kafkas = [definition for definition in honoured if definition.scope is not ConfigScope.OURS]
    topics = [definition for definition in TOPIC_DEFINITIONS.values() if definition.honoured]
    parts = [_PAGE]
    for title, rows in (("Tailrace's own keys", ours), ("Kafka's broker keys", kafkas), ("Topic keys", topics)):
        parts.append(f"\n## {title}\n\n| key | default | allowed | |\n|---|---|---|---|\n")
        parts += [_row(definition) for definition in sorted(rows, key=lambda row: row.name)]
    return "".join(parts)


def _row(definition: ConfigDef) -> str:
    # Others are dynamic in Kafka; here only what topics inherit, and keys of our own, are read again while running.
    inherited = any(
        synonym.name == definition.name for topic in TOPIC_DEFINITIONS.values() for synonym in topic.synonyms
    )
    read_again = definition.scope is ConfigScope.OURS or (inherited and definition.scope is ConfigScope.BROKER)
    mark = "*" if read_again and definition.dynamic is not Dynamic.READ_ONLY else ""
    default = f"`{definition.text(definition.default)}`" if definition.default not in (None, ()) else ""
    return f"| `{definition.name}`{mark} | {default} | {definition.allowed} | {definition.doc} |\n"


def targets() -> list[tuple[Path, str]]:
    """What is written where."""
    here = Path(__file__).parent
    written = [(here / "values.pyi", values_stub()), (here / "topic_values.py", topic_values())]
    docs = here.parents[2] / "docs"
    return [*written, (docs / "configuration.md", page())] if docs.is_dir() else written


def main(arguments: list[str]) -> int:
    """Writes what is out of date; with --check only says so and returns 1."""
    outdated = [(path, text) for path, text in targets() if not path.exists() or path.read_text() != text]
    if "--check" not in arguments:
        for path, text in outdated:
            path.write_text(text)
        return 0
    if outdated:
        names = " and ".join(path.name for path, _ in outdated)
        sys.stderr.write(f"Out of date: {names}. Run python -m tailrace.config.generate.\n")
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
