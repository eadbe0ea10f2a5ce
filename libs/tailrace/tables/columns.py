"""The columns that the fields of records make of a table. Pure.

A column's type is that of its first value and never changes. Names that differ only in their case are one column, as
in Spark and DuckDB.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Final, TypeAlias

from tailrace.tables.fields.field import Fields, Scalar, Undecodable

BOOLEAN: Final = "boolean"
LONG: Final = "long"
DOUBLE: Final = "double"
STRING: Final = "string"
BINARY: Final = "binary"
TIMESTAMP: Final = "timestamp"
DATE: Final = "date"
MOST_COLUMNS: Final = 1_000
_TYPES: Final[Mapping[type, str]] = {
    bool: BOOLEAN,
    int: LONG,
    float: DOUBLE,
    str: STRING,
    bytes: BINARY,
    datetime.datetime: TIMESTAMP,
    datetime.date: DATE,
}
_EXACT: Final = 2**53  # integers up to here are doubles
Schema: TypeAlias = Mapping[str, str]  # column -> type, as Delta names both


class Columns:
    """The columns of a table, and those that rows which are not yet in it add."""

    def __init__(self, schema: Schema) -> None:
        self._types = dict(schema)
        self._names = {name.lower(): name for name in schema}
        self._new: set[str] = set()
        self._inexact: set[str] = set()  # new columns of integers that are no doubles

    @property
    def types(self) -> Schema:
        """All columns with their types, the new ones too."""
        return self._types

    def fit(self, fields: Fields) -> Fields:
        """The fields by the names of their columns. Raises Undecodable for a row that does not fit.

        Such a row adds no column. A new column of integers becomes one of doubles when a double comes before it is
        in the table: JSON has one kind of number.
        """
        fitted: dict[str, Scalar] = {}
        for name, value in fields.items():
            column = self._names.get(name.lower(), name)
            if column in fitted:
                raise Undecodable(f"two fields make one column, {column}")
            fitted[column] = value
        changed = {}
        for column, value in fitted.items():
            type_ = _TYPES[type(value)]
            have = self._types.get(column)
            if have != type_ and not (have == DOUBLE and type_ == LONG and abs(value) <= _EXACT):  # type: ignore[arg-type]
                if have is not None and not (have == LONG and type_ == DOUBLE and self._may_widen(column)):
                    raise Undecodable(f"column {column} is {have}, the field is {type_}")
                changed[column] = type_
        if len(self._types.keys() | changed.keys()) > MOST_COLUMNS:
            raise Undecodable(f"the table would have more than {MOST_COLUMNS} columns of fields")
        self._add(changed, fitted)
        return fitted

    def _may_widen(self, column: str) -> bool:
        return column in self._new and column not in self._inexact

    def _add(self, changed: Schema, fitted: Fields) -> None:
        for column, type_ in changed.items():
            self._types[column] = type_
            self._names[column.lower()] = column
            self._new.add(column)
        for column in self._new & fitted.keys():
            value = fitted[column]
            if self._types[column] == LONG and abs(value) > _EXACT:  # type: ignore[arg-type]
                self._inexact.add(column)
