"""Schemas of a registry: asked for once, and what is no schema."""

from __future__ import annotations

import json

import pytest

from support.schema_registry import NOT_FOUND, framed
from tailrace.tables.fields.field import SchemaFailure, Undecodable
from tailrace.tables.fields.registry import RegisteredSchemas

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})


class Registry:
    """Answers in memory."""

    def __init__(self, status: int, body: object) -> None:
        self.status, self.body = status, body if isinstance(body, bytes) else json.dumps(body).encode()
        self.asked: list[str] = []

    def __call__(self, path: str) -> tuple[int, bytes]:
        self.asked.append(path)
        return self.status, self.body


def test_a_schema_is_asked_for_once() -> None:
    registry = Registry(200, {"schema": SCHEMA})
    registered = RegisteredSchemas(registry)
    assert [registered.decode(framed(7, b"\x02")), registered.decode(framed(7, b"\x04"))] == [{"a": 1}, {"a": 2}]
    assert registered.decode(None) == {}
    assert registry.asked == ["/schemas/ids/7"]


@pytest.mark.parametrize("value", [b"", b"\0\0\0\0", b'{"a": 1}', b"\1\0\0\0\7\2"])
def test_a_value_without_an_id_is_not_decoded(value: bytes) -> None:
    registry = Registry(200, {"schema": SCHEMA})
    with pytest.raises(Undecodable, match="no schema id"):
        RegisteredSchemas(registry).decode(value)
    assert registry.asked == []


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (404, NOT_FOUND, "the schema registry has no schema 7"),
        (200, {"schema": "syntax = 'proto3';", "schemaType": "PROTOBUF"}, "schema 7 is PROTOBUF, not AVRO"),
        (200, {"schema": SCHEMA, "references": [{"name": "x"}]}, "schema 7 refers to other schemas"),
        (200, {"schema": '"int"'}, "schema 7: it is not of a record"),
    ],
)
def test_values_of_no_usable_schema_are_dead_letters(status: int, body: object, reason: str) -> None:
    registry = Registry(status, body)
    registered = RegisteredSchemas(registry)
    for _ in range(2):
        with pytest.raises(Undecodable) as refused:
            registered.decode(framed(7, b"\x02"))
        assert str(refused.value) == reason
    assert len(registry.asked) == 1


@pytest.mark.parametrize(
    ("status", "body"),
    [(404, b"<html>"), (404, {"error_code": 404}), (401, {}), (302, {}), (503, {}), (200, []), (200, b"["), (200, {})],
)
def test_a_registry_that_is_not_well_makes_no_dead_letters(status: int, body: object) -> None:
    registry = Registry(status, body)
    registered = RegisteredSchemas(registry)
    with pytest.raises(SchemaFailure):
        registered.decode(framed(7, b"\x02"))
    registry.status, registry.body = 200, json.dumps({"schema": SCHEMA}).encode()
    assert registered.decode(framed(7, b"\x02")) == {"a": 1}
