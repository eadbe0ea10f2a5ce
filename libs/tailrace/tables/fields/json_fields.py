"""The fields of a record's JSON value, by the names of columns. Pure."""

from __future__ import annotations

import json
import math
from typing import Final, NoReturn

from tailrace.tables.fields.field import Fields, Scalar, Undecodable, by_column

_INT64: Final = range(-(2**63), 2**63)


def decode(value: bytes | None) -> Fields:
    """The fields that are not null; of a record without a value none. An object or a list is its JSON text.

    Raises Undecodable.
    """
    if value is None:
        return {}
    try:
        found: object = json.loads(value, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as wrong:
        raise Undecodable(f"not JSON: {_why(wrong)}") from None
    if not isinstance(found, dict):
        raise Undecodable("not a JSON object")
    fields = by_column(found, _scalar)
    if b"\\u" in value:  # an escape is the one way to text that is not UTF-8
        _check_utf8(fields)
    return fields


def _scalar(column: str, content: object) -> Scalar:
    if isinstance(content, int):  # bool is one
        if content not in _INT64:
            raise Undecodable(f"field {column}: an integer of more than 64 bits")
        return content
    if isinstance(content, float):
        if not math.isfinite(content):
            raise Undecodable(f"field {column}: a number that no double holds")
        return content
    if isinstance(content, str):
        return content
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _check_utf8(fields: Fields) -> None:
    try:
        for column, content in fields.items():
            column.encode()
            if isinstance(content, str):
                content.encode()
    except UnicodeEncodeError:
        raise Undecodable("a text with half of a surrogate pair") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _why(wrong: Exception) -> str:
    """Without the value's own text, which may be long or secret."""
    if isinstance(wrong, json.JSONDecodeError):
        return f"{wrong.msg} at character {wrong.pos}"
    if isinstance(wrong, UnicodeDecodeError):
        return "not UTF-8"
    return "nested too deeply" if isinstance(wrong, RecursionError) else str(wrong)
