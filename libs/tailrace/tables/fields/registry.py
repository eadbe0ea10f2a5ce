"""Schemas by id, from a registry that answers as Confluent's does (GET /schemas/ids/ID)."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import Final

from tailrace.tables.fields.avro_fields import AvroSchema, BadSchema
from tailrace.tables.fields.field import Fields, SchemaFailure, Undecodable

Get = Callable[[str], tuple[int, bytes]]  # of a path the status and the body; raises SchemaFailure

_TIMEOUT_S: Final = 10
_MOST_BYTES: Final = 1 << 20  # of an answer
_MOST_SCHEMAS: Final = 1_000  # that are kept
_MAGIC: Final = 0
_PREFIX_BYTES: Final = 5  # magic byte and id
_SCHEMA_NOT_FOUND: Final = 40403


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would take the password to another host."""

    def redirect_request(self, *given: object) -> None:
        return None


class HttpRegistry:
    """The registry at a URL; user: NAME:PASSWORD, or empty."""

    def __init__(self, url: str, user: str = "") -> None:
        self._url = url.rstrip("/")
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if user:
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"

    def __call__(self, path: str) -> tuple[int, bytes]:
        """One GET; it blocks. Raises SchemaFailure."""
        request = urllib.request.Request(self._url + path, headers=self._headers)
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                status, body = answer.status, answer.read(_MOST_BYTES + 1)
        except urllib.error.HTTPError as refused:
            with refused:
                status, body = refused.code, refused.read(_MOST_BYTES + 1)
        except (OSError, HTTPException) as away:
            raise SchemaFailure(f"the schema registry does not answer: {away}") from None
        if len(body) > _MOST_BYTES:
            raise SchemaFailure(f"the schema registry's answer has more than {_MOST_BYTES:,} bytes")
        return status, body


class RegisteredSchemas:
    """Decodes values in Confluent's wire format: a zero byte, the schema's id in four bytes, the Avro value."""

    def __init__(self, get: Get) -> None:
        self._get = get
        self._known: dict[int, AvroSchema | str] = {}  # a schema, or why there is none

    def decode(self, value: bytes | None) -> Fields:
        """Raises Undecodable where there is no such schema, and SchemaFailure where the registry is away."""
        if value is None:
            return {}
        if len(value) < _PREFIX_BYTES or value[0] != _MAGIC:
            raise Undecodable("no schema id: the value does not begin with a zero byte and four bytes")
        number = int.from_bytes(value[1:_PREFIX_BYTES], "big")
        if (schema := self._known.get(number)) is None:
            schema = self._ask(number)
            if len(self._known) >= _MOST_SCHEMAS:
                self._known.clear()
            self._known[number] = schema
        if isinstance(schema, str):
            raise Undecodable(schema)
        return schema.decode(value[_PREFIX_BYTES:])

    def _ask(self, number: int) -> AvroSchema | str:
        status, body = self._get(f"/schemas/ids/{number}")
        try:
            answer = json.loads(body)
            if status == 404 and answer["error_code"] == _SCHEMA_NOT_FOUND:
                return f"the schema registry has no schema {number}"
            if status != 200:
                raise SchemaFailure(f"the schema registry answers {status}")
            text, kind, others = answer["schema"], answer.get("schemaType", "AVRO"), answer.get("references")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise SchemaFailure(f"the schema registry answers {status} without a schema") from None
        if kind != "AVRO":
            return f"schema {number} is {kind}, not AVRO"
        if others:
            return f"schema {number} refers to other schemas"
        try:
            return AvroSchema(text)
        except BadSchema as bad:
            return f"schema {number}: {bad}"
