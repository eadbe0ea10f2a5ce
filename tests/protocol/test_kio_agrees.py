"""kio, an independent codec, is the oracle: what it writes we read, and what we write of it is the same bytes."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import random
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from tailrace.wire import codec
from tailrace.wire.apis import INTERNAL_APIS, Api, ApiKey
from tailrace.wire.hot.fetch import decode_fetch
from tailrace.wire.hot.produce import decode_produce

KAFKAS = [api for api in INTERNAL_APIS.values() if api.key < 10_000]
CASES = [
    pytest.param(api, version, kind, id=f"{api.key.name}-v{version}-{kind}")
    for api in KAFKAS
    for version in range(api.min_version, api.max_version + 1)
    for kind in ("request", "response")
]
SEEDS = range(5)


def kio_class(api: Api, version: int, kind: str) -> Any:
    """kio's class of the same message, or a skip where kio does not know it."""
    name = "unregister_broker" if api.key is ApiKey.UNREGISTER_BROKER else api.key.name.lower()
    try:
        module = importlib.import_module(f"kio.schema.{name}.v{version}.{kind}")
    except ModuleNotFoundError:
        return None
    wanted = (api.request if kind == "request" else api.response).__name__
    return getattr(module, wanted)


def name_of(row: Any) -> object:
    """What a row of a list may be known by: the decoder answers what is named twice once (wire/repeats.py)."""
    if not dataclasses.is_dataclass(row):
        return row
    texts = tuple(value for value in vars_of(row) if value is None or isinstance(value, str))
    return texts or id(row)


def vars_of(row: Any) -> list[Any]:
    return [getattr(row, field.name) for field in dataclasses.fields(row)]


class Filler:
    """Random values for kio's dataclasses, by their Kafka types."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def entity(self, cls: Any) -> Any:
        hints = typing.get_type_hints(cls)
        values = {field.name: self.value(field, hints[field.name]) for field in dataclasses.fields(cls)}
        return cls(**values)

    def value(self, field: Any, hint: Any) -> Any:
        if typing.get_origin(hint) in (typing.Union, types.UnionType):
            inner = [arg for arg in typing.get_args(hint) if arg is not type(None)]
            has_default = field.default is not dataclasses.MISSING
            if self.chance.random() < 0.4:
                return field.default if has_default and "tag" in field.metadata else None
            hint = inner[0]
        if typing.get_origin(hint) is tuple:
            (item, _) = typing.get_args(hint)
            rows = [self.one(field, item) for _ in range(self.chance.randrange(3))]
            return tuple({name_of(row): row for row in rows}.values())
        return self.one(field, hint)

    def one(self, field: Any, hint: Any) -> Any:
        if dataclasses.is_dataclass(hint):
            return self.entity(hint)
        return self.primitive(field.metadata["kafka_type"], hint)

    def primitive(self, kind: str, hint: Any) -> Any:
        chance = self.chance
        if kind.startswith(("int", "uint")):
            bits = int(kind.removeprefix("u").removeprefix("int"))
            low, high = (0, 2**bits) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
            return chance.randrange(low, high)
        made: dict[str, Callable[[], Any]] = {
            "bool": lambda: chance.random() < 0.5,
            "string": lambda: "".join(chance.choice("abcé…") for _ in range(chance.randrange(5))),
            "bytes": lambda: chance.randbytes(chance.randrange(200)),
            "records": lambda: chance.randbytes(chance.randrange(200)),
            "uuid": lambda: uuid.UUID(int=chance.getrandbits(128)),
            "float64": chance.random,
            "timedelta_i32": lambda: datetime.timedelta(milliseconds=chance.randrange(2**31)),
            "timedelta_i64": lambda: datetime.timedelta(milliseconds=chance.randrange(2**40)),
            "datetime_i64": lambda: datetime.datetime.fromtimestamp(chance.randrange(2**31), datetime.UTC),
            "error_code": lambda: chance.choice(list(hint)),
        }
        return made[kind]()


def written(cls: Any, entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(cls)(buffer, entity)
    return buffer.getvalue()


@pytest.mark.parametrize(("api", "version", "kind"), CASES)
def test_what_kio_writes_we_read_and_write_again_the_same(api: Api, version: int, kind: str) -> None:
    cls = kio_class(api, version, kind)
    if cls is None:
        assert (api.key, version) in UNKNOWN_TO_KIO
        return
    decode = codec.decode_request if kind == "request" else codec.decode_response
    for seed in SEEDS:
        entity = Filler(seed).entity(cls)
        if (api.key, kind) == (ApiKey.API_VERSIONS, "response"):
            # An error makes kafka-python read a v0 body, as clients must (KIP-511).
            entity = dataclasses.replace(entity, error_code=ErrorCode.none)
        body = written(cls, entity)
        ours = decode(api.key, version, body)
        assert codec.encode_response_body(ours, version) == body
        if kind == "request" and api.key is ApiKey.PRODUCE:
            decode_produce(version, memoryview(body))
        if kind == "request" and api.key is ApiKey.FETCH:
            decode_fetch(version, memoryview(body))


# test_kafkas_schemas.py compares these with Apache Kafka's own.
UNKNOWN_TO_KIO = {(ApiKey.API_VERSIONS, 5), (ApiKey.DELETE_GROUPS, 3), (ApiKey.TXN_OFFSET_COMMIT, 6)}
