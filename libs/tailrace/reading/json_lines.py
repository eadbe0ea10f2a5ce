"""A record as one JSON object, read and written, so that what `consume --json` prints `produce --json` takes. Pure.

Keys and values are strings. Bytes that are no UTF-8 are {"base64": "…"}.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from tailrace.records.record import Headers, Record

_BASE64: Final = "base64"
_TAKEN: Final = {"topic", "partition", "offset", "timestamp", "key", "value", "headers"}


class NewRecord(NamedTuple):
    """What a line says of a record that shall be written; None: the producer chooses."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


def written(topic: str, partition: int, record: Record) -> str:
    """One line, without its line feed."""
    return json.dumps(
        {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _shown(record.key),
            "value": _shown(record.value),
            "headers": [{"name": name, "value": _shown(value)} for name, value in record.headers],
        },
        ensure_ascii=False,
    )


def read(line: bytes) -> NewRecord:
    """A record of a line; topic and offset, which the cluster gives, are passed over. Raises ValueError."""
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(found, dict):
        raise ValueError("expected an object with key, value, headers, partition, timestamp")
    if unknown := sorted(found.keys() - _TAKEN):
        raise ValueError(f"unknown field {unknown[0]!r}: expected {', '.join(sorted(_TAKEN))}")
    return NewRecord(
        _bytes("key", found.get("key")),
        _bytes("value", found.get("value")),
        _headers(found.get("headers") or []),
        _number("partition", found.get("partition"), 31),
        _number("timestamp", found.get("timestamp"), 63),
    )


def _shown(part: bytes | None) -> object:
    if part is None:
        return None
    try:
        return part.decode()
    except UnicodeDecodeError:
        return {_BASE64: base64.b64encode(part).decode()}


def _bytes(name: str, part: object) -> bytes | None:
    try:
        if part is None:
            return None
        if isinstance(part, str):
            return part.encode()
        if isinstance(part, Mapping) and part.keys() == {_BASE64}:
            return base64.b64decode(part[_BASE64], validate=True)
    except (ValueError, TypeError):
        pass
    raise ValueError(f'{name}: expected a string, null, or {{"base64": "…"}}')


def _headers(rows: object) -> Headers:
    if not isinstance(rows, list) or not all(isinstance(row, dict) and row.keys() == {"name", "value"} for row in rows):
        raise ValueError('headers: expected a list of {"name": "…", "value": "…"}')
    for row in rows:
        if not isinstance(row["name"], str) or not _is_utf8(row["name"]):
            raise ValueError("headers: a name is a string")
    return tuple((row["name"], _bytes("headers", row["value"])) for row in rows)


def _is_utf8(text: str) -> bool:
    try:
        return text.encode() is not None
    except UnicodeEncodeError:
        return False


def _number(name: str, given: object, bits: int) -> int | None:
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given < 1 << bits:
        raise ValueError(f"{name}: expected a number from 0")
    return given
