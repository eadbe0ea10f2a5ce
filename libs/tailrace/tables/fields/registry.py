"""Schemas by id, from a registry that answers as Confluent's does (GET /schemas/ids/ID)."""

from __future__ import annotations

import base64
import json
import threading
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Callable
from http.client import HTTPException
from typing import Final

from tailrace.tables.fields.avro_fields import AvroSchema, BadSchema
from tailrace.tables.fields.field import Fields, SchemaFailure, Undecodable

Get = Callable[[str], tuple[int, bytes]]  # of a path the status and the body; raises SchemaFailure

_TIMEOUT_S: Final = 10
_MOST_BYTES: Final = 1 << 20  # of an answer
_MOST_SCHEMAS: Final = 1_000  # that are kept: those used last
_UNKNOWN_MS: Final = 10_000  # until an id is asked for again: the replica that did not know it may have been behind
_MOST_UNKNOWN: Final = 100  # ids of one topic that are asked for in vain within that time
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
    """The schemas of a registry, for the decoders of all topics and their threads."""

    def __init__(self, get: Get) -> None:
        self._get = get
        self._lock = threading.Lock()
        self._known: OrderedDict[int, AvroSchema | str] = OrderedDict()

    def known(self, number: int) -> AvroSchema | str | None:
        """A schema that was asked for before, or why it makes no rows; None of one that was not."""
        with self._lock:
            if number in self._known:
                self._known.move_to_end(number)
            return self._known.get(number)

    def ask(self, number: int) -> AvroSchema | str | None:
        """The same from the registry; None where it does not know the id. Raises SchemaFailure where it is away."""
        schema = self._ask(number)
        if schema is not None:
            with self._lock:
                self._known[number] = schema
                if len(self._known) > _MOST_SCHEMAS:
                    self._known.popitem(last=False)
        return schema

    def _ask(self, number: int) -> AvroSchema | str | None:
        status, body = self._get(f"/schemas/ids/{number}")
        try:
            answer = json.loads(body)
            if status == 404 and answer["error_code"] == _SCHEMA_NOT_FOUND:
                return None
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


class RegistryDecoder:
    """Decodes a topic's values in Confluent's wire format: a zero byte, the schema's id in four bytes, the Avro value.

    Of made-up ids only a few are asked for: each blocks the worker of the topic.
    """

    def __init__(self, schemas: RegisteredSchemas, monotonic_ms: Callable[[], float]) -> None:
        self._schemas = schemas
        self._monotonic_ms = monotonic_ms
        self._unknown: dict[int, float] = {}  # ids that the registry does not know, until when; the oldest first

    def decode(self, value: bytes | None) -> Fields:
        """Raises Undecodable where there is no such schema, and SchemaFailure where the registry is away."""
        if value is None:
            return {}
        if len(value) < _PREFIX_BYTES or value[0] != _MAGIC:
            raise Undecodable("no schema id: the value does not begin with a zero byte and four bytes")
        number = int.from_bytes(value[1:_PREFIX_BYTES], "big")
        schema = self._schemas.known(number) or self._learn(number)
        if isinstance(schema, str):
            raise Undecodable(schema)
        return schema.decode(value[_PREFIX_BYTES:])

    def _learn(self, number: int) -> AvroSchema | str:
        now_ms = self._monotonic_ms()
        while self._unknown and self._unknown[oldest := next(iter(self._unknown))] <= now_ms:
            del self._unknown[oldest]
        if number not in self._unknown:
            if len(self._unknown) >= _MOST_UNKNOWN:
                return f"schema {number} was not asked for: the schema registry did not know {_MOST_UNKNOWN} others"
            if (schema := self._schemas.ask(number)) is not None:
                return schema
            self._unknown[number] = now_ms + _UNKNOWN_MS
        return f"the schema registry has no schema {number}"
