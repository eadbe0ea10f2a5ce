"""The schema registry over HTTP."""

from __future__ import annotations

import pytest

from support.schema_registry import schema_registry
from tailrace.tables.fields.field import SchemaFailure
from tailrace.tables.fields.registry import HttpRegistry


def test_a_registry_is_asked_with_the_users_password() -> None:
    asked: list[tuple[str, str | None]] = []
    with schema_registry({"7": {"schema": '"int"'}}, asked) as url:
        assert HttpRegistry(f"{url}/", "me:secret")("/schemas/ids/7") == (200, b'{"schema": "\\"int\\""}')
        assert HttpRegistry(url)("/schemas/ids/8")[0] == 404
    assert asked == [("/schemas/ids/7", "Basic bWU6c2VjcmV0"), ("/schemas/ids/8", None)]
    with pytest.raises(SchemaFailure, match="does not answer"):
        HttpRegistry(url)("/schemas/ids/7")
