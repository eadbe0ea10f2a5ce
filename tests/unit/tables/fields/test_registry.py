"""Schemas of a registry: how often it is asked, and what is no schema."""

from __future__ import annotations

import json

import pytest

from support.schema_registry import NOT_FOUND, framed
from tailrace.clock import ManualClock
from tailrace.tables.fields.field import SchemaFailure, Undecodable
from tailrace.tables.fields.registry import RegisteredSchemas, RegistryDecoder

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})


class Registry:
    """Answers in memory."""

    def __init__(self, status: int, body: object) -> None:
        self.status, self.body = status, body if isinstance(body, bytes) else json.dumps(body).encode()
        self.asked: list[str] = []

    def __call__(self, path: str) -> tuple[int, bytes]:
        self.asked.append(path)
        return self.status, self.body

    def become(self, status: int, body: object) -> None:
        self.status, self.body = status, json.dumps(body).encode()


def of(registry: Registry, clock: ManualClock | None = None) -> RegistryDecoder:
    return RegistryDecoder(RegisteredSchemas(registry), (clock or ManualClock()).monotonic_ms)


def reason(decoder: RegistryDecoder, number: int) -> str:
    """Why a value with the id is a dead letter."""
    with pytest.raises(Undecodable) as refused:
        decoder.decode(framed(number, b"\x02"))
    return str(refused.value)


def test_a_schema_is_asked_for_once() -> None:
    registry = Registry(200, {"schema": SCHEMA})
    registered = of(registry)
    assert [registered.decode(framed(7, b"\x02")), registered.decode(framed(7, b"\x04"))] == [{"a": 1}, {"a": 2}]
    assert registered.decode(None) == {}
    assert registry.asked == ["/schemas/ids/7"]


@pytest.mark.parametrize("value", [b"", b"\0\0\0\0", b'{"a": 1}', b"\1\0\0\0\7\2"])
def test_a_value_without_an_id_is_not_decoded(value: bytes) -> None:
    registry = Registry(200, {"schema": SCHEMA})
    with pytest.raises(Undecodable, match="no schema id"):
        of(registry).decode(value)
    assert registry.asked == []


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (404, NOT_FOUND, "the schema registry has no schema 7"),
        (200, {"schema": "syntax = 'proto3';", "schemaType": "PROTOBUF"}, "schema 7 is PROTOBUF, not AVRO"),
        (200, {"schema": SCHEMA, "references": [{"name": "x"}]}, "schema 7 refers to other schemas"),
        (200, {"schema": '"int"'}, "schema 7: it is not of a record"),
    ],
)
def test_values_of_no_usable_schema_are_dead_letters(status: int, body: object, expected: str) -> None:
    registry = Registry(status, body)
    registered = of(registry)
    assert [reason(registered, 7), reason(registered, 7)] == [expected] * 2
    assert len(registry.asked) == 1


@pytest.mark.parametrize(
    ("status", "body"),
    [(404, b"<html>"), (404, {"error_code": 404}), (401, {}), (302, {}), (503, {}), (200, []), (200, b"["), (200, {})],
)
def test_a_registry_that_is_not_well_makes_no_dead_letters(status: int, body: object) -> None:
    registry = Registry(status, body)
    registered = of(registry)
    with pytest.raises(SchemaFailure):
        registered.decode(framed(7, b"\x02"))
    registry.become(200, {"schema": SCHEMA})
    assert registered.decode(framed(7, b"\x02")) == {"a": 1}


def test_an_id_that_a_replica_of_the_registry_does_not_know_yet_is_asked_for_again() -> None:
    registry, clock = Registry(404, NOT_FOUND), ManualClock()
    decoder = of(registry, clock)
    assert reason(decoder, 7) == "the schema registry has no schema 7"
    registry.become(200, {"schema": SCHEMA})
    clock.advance(9_999)
    assert reason(decoder, 7) == "the schema registry has no schema 7"
    clock.advance(1)
    assert decoder.decode(framed(7, b"\x02")) == {"a": 1}
    assert len(registry.asked) == 2


def test_of_made_up_ids_few_are_asked_for() -> None:
    """Another topic's are asked for all the same, and each goes on with the schemas that are known."""
    registry, clock = Registry(200, {"schema": SCHEMA}), ManualClock()
    schemas = RegisteredSchemas(registry)
    flooded, other = RegistryDecoder(schemas, clock.monotonic_ms), RegistryDecoder(schemas, clock.monotonic_ms)
    flooded.decode(framed(7, b"\x02"))
    registry.become(404, NOT_FOUND)
    registry.asked.clear()
    reasons = [reason(flooded, number) for number in range(1_000, 3_500)]
    assert len(registry.asked) == 100
    assert reasons[99:101] == [
        "the schema registry has no schema 1099",
        "schema 1100 was not asked for: the schema registry did not know 100 others",
    ]
    registry.become(200, {"schema": SCHEMA})
    assert flooded.decode(framed(7, b"\x02")) == other.decode(framed(8, b"\x02")) == {"a": 1}
    clock.advance(10_000)
    assert flooded.decode(framed(1_100, b"\x02")) == {"a": 1}


def test_the_schemas_that_were_used_last_are_kept() -> None:
    registry = Registry(200, {"schema": SCHEMA})
    decoder = of(registry)
    for number in [*range(1_000), 0, 1_000]:
        decoder.decode(framed(number, b"\x02"))
    registry.asked.clear()
    for number in (0, 2, 1_000, 1):
        decoder.decode(framed(number, b"\x02"))
    assert registry.asked == ["/schemas/ids/1"]
