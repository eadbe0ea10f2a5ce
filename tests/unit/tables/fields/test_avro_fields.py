"""The fields of Avro values, what makes no row, and schemas that no value is read by."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.tables.fields.avro_fields import MOST_LEVELS, AvroSchema, BadSchema
from tailrace.tables.fields.field import Undecodable

NOON = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
LONG = "9" * 28 + ".0123456789"
DOUBLES, LONGS = ({"type": "array", "items": name} for name in ("double", "long"))
POINT = {
    "type": "record",
    "name": "Point",
    "fields": [{"name": "x", "type": "double"}, {"name": "at", "type": "bytes"}],
}


def schema(*types: object) -> dict[str, object]:
    """A record with the fields a, b, c and so on."""
    return {"type": "record", "name": "Row", "fields": [{"name": chr(97 + n), "type": t} for n, t in enumerate(types)]}


def logical(type_: str, name: str, **more: object) -> dict[str, object]:
    return {"type": type_, "logicalType": name, **more}


def encoded(described: dict[str, object], row: dict[str, object]) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(described), row)
    return target.getvalue()


@pytest.mark.parametrize(
    ("type_", "content", "scalar"),
    [
        ("long", -(2**63), -(2**63)),
        ("float", 1.5, 1.5),
        ("double", float("inf"), float("inf")),
        ("boolean", True, True),
        ("string", "å", "å"),
        ("bytes", b"\xff", b"\xff"),
        (["null", "string"], "x", "x"),
        ({"type": "enum", "name": "E", "symbols": ["ON", "OFF"]}, "OFF", "OFF"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", b"ab"),
        (logical("long", "timestamp-millis"), NOON, NOON),
        (logical("long", "timestamp-micros"), NOON, NOON),
        (logical("long", "local-timestamp-micros"), NOON.replace(tzinfo=None), "2026-11-21T12:00:00"),
        (logical("int", "date"), NOON.date(), NOON.date()),
        (logical("int", "time-millis"), datetime.time(12, 30), "12:30:00"),
        (logical("string", "uuid"), UUID(int=7), str(UUID(int=7))),
        (logical("bytes", "decimal", precision=38, scale=10), Decimal(LONG), LONG),
        (logical("bytes", "decimal", precision=4), Decimal(-12), "-12"),
        ({"type": "array", "items": POINT}, [{"x": 1.0, "at": b"a"}], '[{"x":1.0,"at":"YQ=="}]'),
        ({"type": "map", "values": logical("int", "date")}, {"å": NOON.date()}, '{"å":"2026-11-21"}'),
    ],
)
def test_the_fields_of_a_record_are_columns(type_: object, content: object, scalar: object) -> None:
    described = schema(type_, ["null", "int"])
    assert AvroSchema(json.dumps(described)).decode(encoded(described, {"a": content, "b": None})) == {"a": scalar}


def test_a_record_without_a_value_has_no_fields() -> None:
    assert AvroSchema(json.dumps(schema("int"))).decode(None) == {}


@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [
        ("string", b"\x08ab", "does not match its Avro schema"),
        ("string", b"\x02\xff", "does not match its Avro schema"),
        ("string", b"", "does not match its Avro schema"),
        ("int", b"\x02\x02", "1 bytes follow the value of the Avro schema"),
        (["null", "int"], b"\x08", "does not match its Avro schema"),
        (logical("long", "timestamp-millis"), b"\xfe" * 9 + b"\x01", "does not match its Avro schema"),
        (logical("int", "date"), b"\xfe" * 4 + b"\x01", "does not match its Avro schema"),
        (logical("bytes", "decimal", precision=4), b"\x22" + bytes(17), "a decimal of more than 16 bytes"),
        (DOUBLES, b"\x02" + bytes(6) + b"\xf8\x7f\x00", "field a: a number that JSON has not"),
        (LONGS, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f", "does not match its Avro schema"),
    ],
)
def test_what_makes_no_row_says_why(type_: object, value: bytes, reason: str) -> None:
    with pytest.raises(Undecodable) as refused:
        AvroSchema(json.dumps(schema(type_))).decode(value)
    assert str(refused.value) == reason


def nested(levels: int) -> object:
    found: object = "int"
    for _ in range(levels):
        found = {"type": "array", "items": found}
    return found


LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        ("int", "it is not of a record"),
        (LIST, "L holds itself"),
        (schema({"type": "array", "items": "null"}), "a type is null outside of a union"),
        (schema({"type": "record", "name": "Empty", "fields": []}), "a record has no fields"),
        (schema({"type": "fixed", "name": "F", "size": 0}), "a fixed type has no bytes"),
        (schema(logical("bytes", "decimal", precision=39)), "a decimal has a scale beyond"),
        (schema(logical("bytes", "decimal", precision=3, scale=4)), "decimal scale"),
        (schema(nested(MOST_LEVELS)), "more than 64 levels"),
        (schema("Unknown"), "no Avro schema"),
        ({"type": "record", "name": "R"}, "a record has no fields"),
        ({"type": "record", "name": "R", "fields": [{"name": "\ud800", "type": "int"}]}, "no Avro schema"),
        ([], "it is not of a record"),
        (schema("int") | {"__fastavro_parsed": True, "__named_schemas": {"L": LIST}}, "it has a mark of fastavro"),
        (5, "no Avro schema"),
    ],
)
def test_a_schema_that_is_not_usable_is_refused(described: object, reason: str) -> None:
    with pytest.raises(BadSchema) as refused:
        AvroSchema(json.dumps(described))
    assert reason in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"type": ' * 900 + '"int"' + "}" * 900])
def test_a_text_that_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(BadSchema):
        AvroSchema(text)


def test_named_types_that_hold_each_other_in_a_row_have_a_bound() -> None:
    """A value of few bytes would need a stack of many calls."""
    fields = [{"name": "f0", "type": {"type": "record", "name": "N0", "fields": [{"name": "x", "type": "int"}]}}]
    for number in range(1, MOST_LEVELS):
        named = {"type": "record", "name": f"N{number}", "fields": [{"name": "x", "type": f"N{number - 1}"}]}
        fields.append({"name": f"f{number}", "type": named})
    with pytest.raises(BadSchema, match="more than 64 levels"):
        AvroSchema(json.dumps({"type": "record", "name": "R", "fields": fields}))


EVERY = schema(
    "string",
    ["null", "bytes", POINT],
    {"type": "array", "items": ["int", "Point"]},
    {"type": "map", "values": "float"},
    logical("bytes", "decimal", precision=9, scale=2),
    logical("long", "timestamp-micros"),
    logical("int", "time-millis"),
)


@given(st.binary(max_size=200))
def test_every_value_is_fields_or_undecodable(value: bytes) -> None:
    try:
        fields = AvroSchema(json.dumps(EVERY)).decode(value)
    except Undecodable:
        return
    assert fields.keys() <= set("abcdefg")
