"""The decoder of a topic's values, by its configs."""

from __future__ import annotations

from collections.abc import Callable

from tailrace.tables.fields import json_fields
from tailrace.tables.fields.avro_fields import AvroSchema, BadSchema
from tailrace.tables.fields.field import JSON, Decode, SchemaFailure
from tailrace.tables.fields.registry import RegisteredSchemas, RegistryDecoder


class Decoders:
    """Decoders share what is known of the registry; registered: None where the worker has no registry."""

    def __init__(self, monotonic_ms: Callable[[], float], registered: RegisteredSchemas | None = None) -> None:
        self._monotonic_ms = monotonic_ms
        self._registered = registered

    def of(self, value_format: str, schema: str) -> Decode:
        """schema: the text of an Avro schema, or empty for those of the registry. Raises SchemaFailure."""
        if value_format == JSON:
            return json_fields.decode
        if not schema:
            if self._registered is None:
                raise SchemaFailure("Avro without a schema in the topic's configs needs --schema-registry")
            return RegistryDecoder(self._registered, self._monotonic_ms).decode
        try:
            return AvroSchema(schema).decode
        except BadSchema as bad:
            raise SchemaFailure(f"tailrace.table.value.schema: {bad}") from None
