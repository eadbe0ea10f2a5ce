"""The columns of a captured table, from the schema that Debezium's JSON converter puts beside each event."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TYPES = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "binary",
}
# Connect's and Debezium's logical types: SQL that makes the value, null of what is none.
MILLIS = "timestamp_micros(try_multiply({}, 1000))"
LOGICAL = {
    "io.debezium.time.Date": "date_from_unix_date({})",
    "org.apache.kafka.connect.data.Date": "date_from_unix_date({})",
    "io.debezium.time.Timestamp": MILLIS,
    "org.apache.kafka.connect.data.Timestamp": MILLIS,
    "io.debezium.time.MicroTimestamp": "timestamp_micros({})",
    "io.debezium.time.ZonedTimestamp": "try_to_timestamp({})",
}


@dataclass(frozen=True)
class ChangeColumn:
    """A column: its type in JSON, and the SQL that makes the value of it."""

    name: str
    said: str
    made: str = "{}"

    def value(self, row: str) -> str:
        """The column of a parsed row, as SQL."""
        return self.made.format(f"{row}.{quoted(self.name)}")


def columns_of(schema: str) -> tuple[ChangeColumn, ...]:
    """Of the `schema` of an event: the fields of its `after`; none where it has no such fields."""
    try:
        parts = json.loads(schema)["fields"]
        return tuple(column_of(field) for part in parts if part["field"] == "after" for field in part["fields"])
    except (ValueError, LookupError, TypeError, AttributeError):
        return ()


def union(newest_first: Iterable[Sequence[ChangeColumn]]) -> tuple[ChangeColumn, ...]:
    """Each column once, in the order of the oldest; the newest says its type."""
    found: dict[str, ChangeColumn] = {}
    for columns in reversed(list(newest_first)):
        found |= {column.name: column for column in columns}
    return tuple(found.values())


def column_of(field: Mapping[str, Any]) -> ChangeColumn:
    """What has no type of its own here (arrays, structs) is kept as the text of its JSON."""
    return ChangeColumn(field["field"], TYPES.get(field["type"], "string"), LOGICAL.get(field.get("name") or "", "{}"))


def quoted(name: str) -> str:
    """For SQL."""
    return f"`{name.replace('`', '``')}`"
