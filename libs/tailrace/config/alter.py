"""IncrementalAlterConfigs (KIP-339) as pure functions: what changes make of a resource, and whether that may be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from tailrace.config.config import Config
from tailrace.config.definition import ConfigDef, ConfigError, ConfigScope, Dynamic, Type
from tailrace.config.definitions import (
    CLIENT_METRICS_DEFINITIONS,
    DEFINITIONS,
    DYNAMIC_DEFINITIONS,
    GROUP_DEFINITIONS,
    TOPIC_DEFINITIONS,
)
from tailrace.config.validators import Value
from tailrace.errors import ApiError, ErrorCode


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class AlterConfigOp:
    """One operation on one key; `value` is ignored by DELETE."""

    name: str
    operation: int
    value: str | None


def apply(
    current: Mapping[str, str], changes: Sequence[AlterConfigOp], definitions: Mapping[str, ConfigDef]
) -> dict[str, str]:
    """Returns the resource's configs after the changes; all of them or ApiError."""
    check_changes(changes)
    after = dict(current)
    for change in changes:
        _apply(after, change, definitions.get(change.name))
    return after


def check_changes(changes: Sequence[AlterConfigOp]) -> None:
    """Raises INVALID_REQUEST for what no kind of resource takes: a key twice, nothing as its value."""
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [c.name for c in changes if c.value is None and c.operation != Operation.DELETE]
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")


def validate_broker(configs: Mapping[str, str], changed: Sequence[str], broker: str) -> None:
    """Checks what is about to be set on a broker (`broker` "" is the cluster-wide default). Raises INVALID_REQUEST."""
    fixed = [name for name in changed if name in configs and _mode(name) is Dynamic.READ_ONLY]
    if fixed:
        raise _bad_request(f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]")
    secret = [name for name in changed if name in configs and name.startswith("ssl.")]
    if secret:
        raise _bad_request(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(sorted(secret))}]"
        )
    own = [name for name in changed if name in configs and _mode(name) is Dynamic.PER_BROKER]
    if own and not broker:
        names = ", ".join(sorted(own))
        raise _bad_request(
            f"Cannot update these configs at default cluster level, broker id must be specified: [{names}]"
        )
    for name in changed:
        definition = DEFINITIONS.get(name) or DYNAMIC_DEFINITIONS.get(name)
        if definition is not None and name in configs:
            _parse(definition, configs[name], ErrorCode.INVALID_REQUEST)


def validate_group(configs: Mapping[str, str], config: Config) -> None:
    """Checks a group's configs against their types and the broker's group.*.min and max. Raises INVALID_CONFIG."""
    for name, text in configs.items():
        definition = GROUP_DEFINITIONS.get(name)
        if definition is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
        value = _parse(definition, text, ErrorCode.INVALID_CONFIG)
        _within(name, value, config)
        if name == "share.auto.offset.reset" and not _OFFSET_RESET.fullmatch(text):
            rule = "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
            bad = f"Invalid value `{text}` for configuration {name}. {rule}"
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Invalid value {text} for configuration {name}: {bad}")


def validate_client_metrics(configs: Mapping[str, str]) -> None:
    """Checks a client metrics subscription (KIP-714). Raises what Apache Kafka answers."""
    for name, text in configs.items():
        definition = CLIENT_METRICS_DEFINITIONS.get(name)
        if definition is None:
            raise _bad_request(f"Unknown client metrics configuration: {name}")
        value = _parse(definition, text, ErrorCode.INVALID_CONFIG)
        if isinstance(value, int) and not 100 <= value <= 3_600_000:
            raise _bad_request(
                f"Invalid value {value} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
            )
        if name == "match" and isinstance(value, tuple):
            for pattern in value:
                _check_match(pattern)


_OFFSET_RESET = re.compile(
    r"earliest|latest|by_duration:P(?=.)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.IGNORECASE
)
_MATCH_SELECTORS = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def _apply(after: dict[str, str], change: AlterConfigOp, definition: ConfigDef | None) -> None:
    if change.operation == Operation.DELETE:
        after.pop(change.name, None)
        return
    assert change.value is not None
    if change.operation == Operation.SET:
        after[change.name] = change.value
        return
    if change.operation not in (Operation.APPEND, Operation.SUBTRACT):
        raise _bad_request(f"Unknown operation type {change.operation}.")
    operation = Operation(change.operation)
    if definition is None or definition.type is not Type.LIST:
        why = f"Can't {operation.name} to key {change.name} because its type is not LIST."
        raise ApiError(ErrorCode.INVALID_CONFIG, why)
    # Apache Kafka starts from the key's own value or its built-in default, never from the broker's value.
    old = after.get(change.name) or ("" if change.name in after else definition.text(definition.default) or "")
    words = [word for word in old.split(",") if word]
    changed = _appended if operation is Operation.APPEND else _subtracted
    after[change.name] = ",".join(changed(words, change.value.split(",")))


def _appended(words: list[str], more: list[str]) -> list[str]:
    present = set(words)
    return words + [word for word in dict.fromkeys(more) if word not in present]


def _subtracted(words: list[str], less: list[str]) -> list[str]:
    """Each of less takes one away, the first of those that are the same."""
    gone = Counter(less)
    left = []
    for word in words:
        if gone[word]:
            gone[word] -= 1
        else:
            left.append(word)
    return left


def _mode(name: str) -> Dynamic | None:
    definition = DEFINITIONS.get(name)
    return None if definition is None else definition.dynamic


def _parse(definition: ConfigDef, text: str, code: ErrorCode) -> Value:
    try:
        return definition.parse(text)
    except ConfigError as error:
        raise ApiError(code, str(error)) from None


def _within(name: str, value: Value, config: Config) -> None:
    """group.consumer.min.session.timeout.ms and the like bound consumer.session.timeout.ms."""
    if not isinstance(value, int):
        return
    kind, _, rest = name.partition(".")
    for bound in ("min", "max"):
        key = f"group.{kind}.{bound}.{rest.removeprefix('num.')}"
        if key not in DEFINITIONS:
            continue
        limit = config.get(key)
        assert isinstance(limit, int)
        if bound == "min" and value < limit:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {key}")
        if bound == "max" and value > limit:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{name} must be less than or equal to {key}")


def _check_match(pattern: str) -> None:
    selector, equals, expression = pattern.partition("=")
    try:
        re.compile(expression)
        fits = bool(equals) and selector.strip() in _MATCH_SELECTORS
    except re.error:
        fits = False
    if not fits:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")


def _bad_request(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, why)


DEFINITIONS_OF: dict[ConfigScope, Mapping[str, ConfigDef]] = {
    ConfigScope.TOPIC: TOPIC_DEFINITIONS,
    ConfigScope.BROKER: {**DEFINITIONS, **DYNAMIC_DEFINITIONS},
    ConfigScope.GROUP: GROUP_DEFINITIONS,
    ConfigScope.CLIENT_METRICS: CLIENT_METRICS_DEFINITIONS,
}
"""The table `apply` needs for each kind of resource."""
