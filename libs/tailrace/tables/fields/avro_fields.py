"""The fields of a record's Avro value, by the names of columns, and the schemas that values are read by.

A value of n bytes makes at most n parts of at most 64 levels: a schema that could make more is refused.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from io import BytesIO
from typing import Final

import fastavro
import fastavro.read
from fastavro.types import Schema

from tailrace.tables.fields.field import Fields, Scalar, Undecodable, by_column

MOST_LEVELS: Final = 64
MOST_DIGITS: Final = 38
_DECIMAL_BYTES: Final = 16  # that 38 digits need
_EXACT: Final = decimal.Context(prec=MOST_DIGITS + 2)
_PRIMITIVES: Final = frozenset(("boolean", "int", "long", "float", "double", "bytes", "string"))


class BadSchema(ValueError):
    """A schema that no value is read by; the text says why."""


class AvroSchema:
    """A record's schema."""

    def __init__(self, text: str) -> None:
        """Raises BadSchema."""
        try:
            given = json.loads(text)
            plain = json.dumps(given, ensure_ascii=False).encode()  # names become those of columns
            if b'"__fastavro_parsed"' in plain:  # fastavro would take it unread, with named types of its own
                raise BadSchema("it has a mark of fastavro")
            self._parsed: Schema = fastavro.parse_schema(given)
            if not isinstance(self._parsed, dict) or self._parsed.get("type") != "record":
                raise BadSchema("it is not of a record")
            _Levels().of(self._parsed)
        except RecursionError:
            raise BadSchema("nested too deeply") from None
        except (AttributeError, LookupError, TypeError, ValueError, fastavro.schema.SchemaParseException) as wrong:
            raise wrong if isinstance(wrong, BadSchema) else BadSchema(f"no Avro schema: {wrong!r:.200}") from None

    def decode(self, value: bytes | None) -> Fields:
        """The fields that are not null; of a record without a value none. A record, list or map is its JSON text.

        Raises Undecodable.
        """
        if value is None:
            return {}
        source = BytesIO(value)
        try:
            found = fastavro.schemaless_reader(source, self._parsed, None)
        except Undecodable:
            raise
        except (ArithmeticError, EOFError, LookupError, TypeError, ValueError):
            raise Undecodable("does not match its Avro schema") from None
        if source.tell() != len(value):
            raise Undecodable(f"{len(value) - source.tell()} bytes follow the value of the Avro schema")
        assert isinstance(found, dict)
        return by_column(found, _scalar)


class _Levels:
    """Counts the levels of a schema, and refuses types that hold themselves or that take no byte of a value."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}  # of named types

    def of(self, schema: Schema, *, in_union: bool = False) -> int:
        """Raises BadSchema."""
        if isinstance(schema, str):
            if schema == "null" and not in_union:
                raise BadSchema("a type is null outside of a union")
            return 1 if schema in _PRIMITIVES or schema == "null" else self._named(schema)
        if isinstance(schema, list):
            below = [self.of(branch, in_union=True) for branch in schema]
        else:
            below = self._below(schema, in_union)
        if (levels := 1 + max(below, default=0)) > MOST_LEVELS:
            raise BadSchema(f"it has more than {MOST_LEVELS} levels")
        if isinstance(schema, dict) and "name" in schema:
            self._known[schema["name"]] = levels
        return levels

    def _named(self, name: str) -> int:
        if name not in self._known:  # fastavro knows it, so it is one that is not whole yet
            raise BadSchema(f"{name:.100} holds itself")
        return self._known[name]

    def _below(self, schema: Schema, in_union: bool) -> list[int]:
        kind = schema["type"]
        if schema.get("logicalType") == "decimal":
            _check_decimal(schema)
        if kind in ("record", "error"):
            if not schema["fields"]:
                raise BadSchema("a record has no fields")
            return [self.of(field["type"]) for field in schema["fields"]]
        if kind == "array":
            return [self.of(schema["items"])]
        if kind == "map":
            return [self.of(schema["values"])]
        if kind == "fixed" and not schema["size"] > 0:
            raise BadSchema("a fixed type has no bytes")
        return [] if kind in ("enum", "fixed") else [self.of(kind, in_union=in_union)]


def _check_decimal(schema: Schema) -> None:
    if not 0 <= schema.get("scale", 0) <= schema["precision"] <= MOST_DIGITS:
        raise BadSchema(f"a decimal has a scale beyond its precision, or more than {MOST_DIGITS} digits")


def _decimal(data: bytes, schema: Schema, reader_schema: object = None) -> decimal.Decimal:
    """In place of fastavro's, which rounds to a context's precision and takes any length."""
    if len(data) > _DECIMAL_BYTES:
        raise Undecodable(f"a decimal of more than {_DECIMAL_BYTES} bytes")
    unscaled = decimal.Decimal(int.from_bytes(data, "big", signed=True))
    return unscaled.scaleb(-schema.get("scale", 0), _EXACT)


fastavro.read.LOGICAL_READERS["bytes-decimal"] = _decimal
fastavro.read.LOGICAL_READERS["fixed-decimal"] = _decimal


def _scalar(column: str, content: object) -> Scalar:
    if isinstance(content, bool | int | float | str | bytes):
        return content
    if isinstance(content, dict | list):
        try:
            return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_text)
        except ValueError:
            raise Undecodable(f"field {column}: a number that JSON has not") from None
    if isinstance(content, datetime.date) and getattr(content, "tzinfo", datetime.UTC) is not None:
        return content
    return _text(content)


def _text(content: object) -> str:
    """A decimal, a UUID, a time of day, a time without a zone; within JSON also bytes and times."""
    if isinstance(content, bytes):
        return base64.b64encode(content).decode()
    if isinstance(content, decimal.Decimal):
        return format(content, "f")
    return content.isoformat() if isinstance(content, datetime.date | datetime.time) else str(content)
