"""Small messages of every API and version, made from the schemas."""

from __future__ import annotations

from typing import Any

from tailrace.wire.apis import Api
from tailrace.wire.library import struct_of


def sample(field: Any, version: int) -> Any:
    """A small value for a schema field: one item in every array, so that refusals must name it."""
    if field.is_array():
        inner = field.array_of
        return [fill(inner, version) if inner.is_struct() else sample(inner, version)]
    if field.is_struct():
        return None if field.nullable_for_version_q(version) else fill(field, version)
    return {
        "string": "x",
        "bytes": b"x",
        "records": b"x",
        "bool": True,
        "uuid": None,
        "float64": 1.0,
        "bitfield": {3},
    }.get(field.type_str, 1)


def fill(struct: Any, version: int) -> Any:
    return struct.data_class(**{f.name: sample(f, version) for f in struct.untagged_fields(version)})


def sample_request(api: Api, version: int) -> Any:
    struct: Any = struct_of(api.request)
    return api.request(**{f.name: sample(f, version) for f in struct.untagged_fields(version)})


def sample_response(api: Api, version: int) -> Any:
    struct: Any = struct_of(api.response)
    return api.response(**{f.name: sample(f, version) for f in struct.untagged_fields(version)})
