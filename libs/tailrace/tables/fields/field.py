"""A field of a record's value: its scalar, and the name of its column. Pure."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

Scalar: TypeAlias = bool | int | float | str | bytes | datetime.date  # a datetime is a date
Fields: TypeAlias = Mapping[str, Scalar]
Decode: TypeAlias = Callable[[bytes | None], Fields]  # raises Undecodable, and SchemaFailure where it needs a schema

JSON: Final = "json"  # the format of values whose topic names no other
RESERVED: Final = "_kafka_"  # the columns that say where a record stands in its topic
MOST_NAME_CHARS: Final = 255
# Parquet as Spark writes it has no column with one of these; a dot would be a path, a backtick ends a quoted name.
_NOT_IN_NAMES: Final = re.compile(r"[ ,;{}()\n\t=.`\x00-\x1f]")


class Undecodable(ValueError):
    """A value that makes no row; the text says why."""


class SchemaFailure(Exception):
    """The values cannot be decoded now: the topic's schema is wrong, or the schema registry is away."""


def column_name(name: str) -> str:
    """Raises Undecodable."""
    column = _NOT_IN_NAMES.sub("_", name)
    if not column or len(column) > MOST_NAME_CHARS:
        raise Undecodable(f"a field's name has {len(column)} characters: from 1 to {MOST_NAME_CHARS} can be a column")
    if column.lower().startswith(RESERVED):
        raise Undecodable(f"field {column}: names that begin with {RESERVED} are of the table's own columns")
    return column


def by_column(fields: Mapping[str, object], scalar: Callable[[str, object], Scalar]) -> Fields:
    """The fields that are not null; `scalar` makes one of a column's content. Raises Undecodable."""
    found: dict[str, Scalar] = {}
    for name, content in fields.items():
        if content is not None:
            column = column_name(name)
            if column in found:
                raise Undecodable(f"two fields make one column, {column}")
            found[column] = scalar(column, content)
    return found
