"""The columns of a captured table, from the schema that Debezium's JSON converter puts beside each event."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
# Connect's and Debezium's logical types: the SQL function that makes the value.
LOGICAL = {
    "io.debezium.time.Date": "date_from_unix_date",
    "org.apache.kafka.connect.data.Date": "date_from_unix_date",
    "io.debezium.time.Timestamp": "timestamp_millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp_millis",
    "io.debezium.time.MicroTimestamp": "timestamp_micros",
    "io.debezium.time.ZonedTimestamp": "to_timestamp",
}


@dataclass(frozen=True)
class ChangeColumn:
    """A column: its type in JSON, and the SQL function that makes the value of it."""

    name: str
    said: str
    function: str = ""

    def value(self, row: str) -> str:
        """The column of a parsed row, as SQL."""
        return f"{self.function}({row}.{quoted(self.name)})"


def columns_of(schema: str) -> tuple[ChangeColumn, ...]:
    """Of the `schema` of an event: the fields of its `after`. Raises ValueError where it has none."""
    found = json.loads(schema)
    for part in found.get("fields", ()) if isinstance(found, dict) else ():
        if part.get("field") == "after":
            return tuple(column_of(field) for field in part["fields"])
    raise ValueError("the schema has no field `after`")


def column_of(field: Mapping[str, Any]) -> ChangeColumn:
    """What has no type of its own here (arrays, structs) is kept as the text of its JSON."""
    return ChangeColumn(field["field"], TYPES.get(field["type"], "string"), LOGICAL.get(field.get("name") or "", ""))


def quoted(name: str) -> str:
    """For SQL."""
    return f"`{name.replace('`', '``')}`"
