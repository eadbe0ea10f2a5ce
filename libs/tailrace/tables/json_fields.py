"""The fields of a record's JSON value, by the names of columns. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Final, NoReturn, TypeAlias

Scalar: TypeAlias = bool | int | float | str
Fields: TypeAlias = Mapping[str, Scalar]

RESERVED: Final = "_kafka_"  # the columns that say where a record stands in its topic
MOST_NAME_CHARS: Final = 255
# Parquet as Spark writes it has no column with one of these; a dot would be a path, a backtick ends a quoted name.
_NOT_IN_NAMES: Final = re.compile(r"[ ,;{}()\n\t=.`\x00-\x1f]")
_INT64: Final = range(-(2**63), 2**63)


class Undecodable(ValueError):
    """A value that makes no row; the text says why."""


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
    surrogates = b"\\u" in value  # an escape is the one way to text that is not UTF-8
    fields: dict[str, Scalar] = {}
    for name, content in found.items():
        if content is not None:
            column = _column_name(name)
            if column in fields:
                raise Undecodable(f"two fields make one column, {column}")
            fields[column] = _scalar(column, content)
            if surrogates:
                _check_utf8(column, fields[column])
    return fields


def _column_name(name: str) -> str:
    column = _NOT_IN_NAMES.sub("_", name)
    if not column or len(column) > MOST_NAME_CHARS:
        raise Undecodable(f"a field's name has {len(column)} characters: from 1 to {MOST_NAME_CHARS} can be a column")
    if column.lower().startswith(RESERVED):
        raise Undecodable(f"field {column}: names that begin with {RESERVED} are of the table's own columns")
    return column


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


def _check_utf8(column: str, content: Scalar) -> None:
    try:
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
