"""Short words for the rows of the table."""

from __future__ import annotations

from tailrace.config.definition import (
    ConfigDef,
    Dynamic,
    Importance,
    Range,
    Scope,
    Synonym,
    Type,
    Validator,
    Value,
)

BOOLEAN, STRING, INT, SHORT, LONG = Type.BOOLEAN, Type.STRING, Type.INT, Type.SHORT, Type.LONG
DOUBLE, LIST, CLASS, PASSWORD = Type.DOUBLE, Type.LIST, Type.CLASS, Type.PASSWORD
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
READ_ONLY, PER_BROKER, CLUSTER_WIDE = Dynamic.READ_ONLY, Dynamic.PER_BROKER, Dynamic.CLUSTER_WIDE
INT_MAX, LONG_MAX, DOUBLE_MAX = 2**31 - 1, 2**63 - 1, 1.7976931348623157e308


def at_least(low: float) -> Range:
    return Range(low)


def between(low: float, high: float) -> Range:
    return Range(low, high)


def broker(
    name: str,
    type_: Type,
    default: Value,
    validator: Validator | None,
    importance: Importance,
    dynamic: Dynamic,
    doc: str,
    *,
    honoured: bool = False,
    internal: bool = False,
) -> ConfigDef:
    """A broker config of Apache Kafka 4.3.1."""
    return ConfigDef(name, type_, default, validator, importance, dynamic, doc, honoured, internal=internal)


def topic(
    name: str,
    type_: Type,
    default: Value,
    validator: Validator | None,
    doc: str,
    synonyms: tuple[Synonym, ...] = (),
    *,
    honoured: bool = False,
) -> ConfigDef:
    """A topic config of Apache Kafka 4.3.1; `synonyms` in the order in which they decide."""
    return ConfigDef(name, type_, default, validator, MEDIUM, CLUSTER_WIDE, doc, honoured, Scope.TOPIC, synonyms)


def group(
    name: str,
    type_: Type,
    default: Value,
    validator: Validator | None,
    doc: str,
    synonym: str | None = None,
    *,
    honoured: bool = False,
) -> ConfigDef:
    """A group config (KIP-848, KIP-932); without one of its own a group follows the broker key."""
    synonyms = () if synonym is None else (Synonym(synonym),)
    return ConfigDef(name, type_, default, validator, MEDIUM, CLUSTER_WIDE, doc, honoured, Scope.GROUP, synonyms)


def ours(
    name: str, type_: Type, default: Value, validator: Validator | None, doc: str, *, honoured: bool = True
) -> ConfigDef:
    """A key that only Tailrace has; set at start, read-only afterwards."""
    return ConfigDef(name, type_, default, validator, MEDIUM, READ_ONLY, doc, honoured, Scope.OURS)
