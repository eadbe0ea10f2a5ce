"""Broker loggers (KIP-412): a broker's loggers and their levels, described and altered as configs of a resource.

They are the process's own: nothing of them is stored, and a restart begins with the levels of the command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tailrace.config.alter import AlterConfigOp, Operation, check_changes
from tailrace.config.describe import ConfigEntry
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.resources import ConfigSource

ROOT = "root"
LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")


def described(levels: Mapping[str, str]) -> list[ConfigEntry]:
    """The loggers as configs, by name; `levels` is logger -> its level, its parent's where it has none of its own."""
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [ConfigEntry(name, levels[name], False, source, False, 0, (), "") for name in sorted(levels)]


def altered(known: Mapping[str, str], changes: Sequence[AlterConfigOp]) -> dict[str, str | None]:
    """Logger -> its new level; None: its parent's from now on. All of the changes or ApiError."""
    check_changes(changes)
    return {change.name: _level(known, change) for change in changes}


def _level(known: Mapping[str, str], change: AlterConfigOp) -> str | None:
    if change.operation in (Operation.APPEND, Operation.SUBTRACT):
        name = Operation(change.operation).name
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} operation is not allowed for the BROKER_LOGGER resource")
    if change.operation not in (Operation.SET, Operation.DELETE):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {change.operation}.")
    if change.name not in known:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
    if change.operation == Operation.DELETE:
        if change.name == ROOT:
            why = "Removing the log level of the root logger is not allowed"
            raise ApiError(ErrorCode.INVALID_REQUEST, why)
        return None
    if change.value not in LEVELS:
        why = f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level."
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{why} Valid log levels are {', '.join(LEVELS)}")
    return change.value
