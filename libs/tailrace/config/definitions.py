"""Every config of Apache Kafka 4.4.0 (kafka.tsv) and of Tailrace (ours.tsv), by the resource that has it.

A line of a table is one key. The columns are those of Kafka's own documentation: `default` is `null` where the key is
unset and empty where it is an empty text or list; `valid values` is what the key's validator says of itself; `synonyms`
are the broker keys that a topic or group key follows: the first one that is set decides, and `*60000` turns its unit
into that of the key. A `broker-internal` key works and is not described to clients; a `broker-dynamic` key cannot be
set at start. honoured.py names the module that obeys a key.
"""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.config.definition import ConfigDef, ConfigScope, Dynamic, Importance, Synonym, Type, typed
from tailrace.config.honoured import BROKER_KEYS, GROUP_KEYS, INHERITED, TOPIC_KEYS, obeyed_by
from tailrace.config.validators import validator

_SCOPES = {scope.value: scope for scope in ConfigScope}
_SCOPES |= dict.fromkeys(("broker-dynamic", "broker-internal"), ConfigScope.BROKER)
_TYPES = {type_.name.lower(): type_ for type_ in Type}
_IMPORTANCES = {importance.value: importance for importance in Importance}
_MODES = {mode.value: mode for mode in Dynamic}


def lines(table: str) -> Iterator[list[str]]:
    """The cells of each line below the names of the columns."""
    folder = __file__.rpartition("/")[0]
    with open(f"{folder}/{table}", encoding="utf-8") as file:
        next(file)
        for line in file:
            yield line.rstrip("\n").split("\t")


def _synonyms(text: str) -> tuple[Synonym, ...]:
    pairs = (synonym.partition("*") for synonym in text.split(", "))
    return tuple(Synonym(name, int(factor or 1)) for name, _, factor in pairs)


def _definition(cells: list[str], module: str | None) -> ConfigDef:
    scope, name, type_name, default, values, importance, mode, synonyms, doc = cells
    type_ = _TYPES[type_name]
    return ConfigDef(
        name,
        type_,
        None if default == "null" else typed(name, type_, default),
        validator(values, of_list=type_ is Type.LIST) if values else None,
        _IMPORTANCES[importance],
        _MODES[mode],
        doc,
        module,
        _SCOPES[scope],
        _synonyms(synonyms) if synonyms else (),
        internal=scope == "broker-internal",
    )


def _definitions(rows: list[list[str]], *scopes: str, obeyed: dict[str, str]) -> dict[str, ConfigDef]:
    return {cells[1]: _definition(cells, obeyed.get(cells[1])) for cells in rows if cells[0] in scopes}


_ROWS = [*lines("kafka.tsv"), *lines("ours.tsv")]

TOPIC_DEFINITIONS = _definitions(_ROWS, "topic", obeyed=obeyed_by(TOPIC_KEYS))
_INHERITED = {
    synonym.name: INHERITED for topic in TOPIC_DEFINITIONS.values() if topic.honoured for synonym in topic.synonyms
}
_OBEYED = _INHERITED | obeyed_by(BROKER_KEYS)

DEFINITIONS = _definitions(_ROWS, "broker", "broker-internal", "ours", obeyed=_OBEYED)
"""What a server may be configured with: Kafka's broker configs and ours."""

DYNAMIC_DEFINITIONS = _definitions(_ROWS, "broker-dynamic", obeyed=_OBEYED)
"""Broker configs that exist only dynamically."""

GROUP_DEFINITIONS = _definitions(_ROWS, "group", obeyed=obeyed_by(GROUP_KEYS))
CLIENT_METRICS_DEFINITIONS = _definitions(_ROWS, "client-metrics", obeyed={})
