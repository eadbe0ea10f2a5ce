"""The generated decoders against kafka-python's own, of every message in every version: the same objects, and no more.

What kafka-python writes both read alike; what was damaged is Malformed, or read alike.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from tailrace.wire import codec, library
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.decoder import decode, decoder, uuid_of
from tailrace.wire.malformed import Malformed
from tailrace.wire.messages import ApiMessage, ApiVersionsResponse

# kafka-python reads an ApiVersions answer with an error in version 0, whatever is asked for.
MESSAGES = [
    pytest.param(message, api.min_version, api.max_version, id=message.__name__)
    for api in INTERNAL_APIS.values()
    for message in (api.request, api.response)
    if message is not ApiVersionsResponse
]
ROUNDS, DAMAGES = 6, 8


class Maker:
    """Random messages of a schema: nulls, empty and long lists, tagged fields, long lengths."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)

    def made(self, cls: Any, struct: Any, version: int) -> Any:
        return cls(**{field.name: self._value(field, version) for field in self._fields(struct, version)})

    def _fields(self, struct: Any, version: int) -> Iterator[Any]:
        for field in struct.fields.values():
            if field.for_version_q(version) and (not field.tagged_field_q(version) or self.chance.random() < 0.5):
                yield field

    def _value(self, field: Any, version: int) -> Any:
        if field.nullable_for_version_q(version) and self.chance.random() < 0.2:
            return None
        if field.is_array():
            rows = range(130 if self.chance.random() < 0.02 else self.chance.randrange(3))
            item = field.array_of
            if item.is_struct():
                return [self.made(field.data_class, item, version) for _ in rows]
            return [self._plain(item.type_str) for _ in rows]
        if field.is_struct():
            return self.made(field.data_class, field, version)
        return self._plain(field.type_str)

    def _plain(self, kind: str) -> Any:
        chance = self.chance
        match kind:
            case "string":
                return chance.choice(("", "a", "\u00e9\u2026", "x" * 126, "y" * 127, "z" * 300))
            case "bytes" | "records":
                return chance.randbytes(chance.choice((0, 1, 126, 127, 300)))
            case "uuid":
                return UUID(int=chance.choice((1, chance.getrandbits(128))))
            case "bool":
                return chance.random() < 0.5
            case "float64":
                return chance.random()
            case "bitfield":
                return chance.choice(({0}, {1, 30}))
            case _:
                bits = int(kind.removeprefix("u").removeprefix("int"))
                number = chance.getrandbits(bits)
                return number if kind.startswith("u") else number - (1 << (bits - 1))

    def damaged(self, body: bytes) -> bytes:
        """Cut, made longer, or with other bytes in it."""
        chance, damaged = self.chance, bytearray(body)
        match chance.randrange(4):
            case 0:
                return body[: chance.randrange(len(body) + 1)]
            case 1:
                return body + chance.randbytes(chance.randrange(1, 4))
            case _:
                for _ in range(min(len(body), chance.randrange(1, 4))):
                    at = chance.randrange(len(damaged))
                    damaged[at] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)))
                return bytes(damaged)


def told(found: Any) -> Any:
    """All that is known of a message: its class, version and tags, and every field, set or not."""
    if hasattr(found, "unknown_tags"):
        fields = [(name, told(getattr(found, name))) for name in library.struct_of(found).fields]
        return type(found), found.version, found.tags, found.unknown_tags, fields
    if isinstance(found, list):
        return [told(row) for row in found]
    return repr(found)


@pytest.mark.parametrize(("message", "first", "last"), MESSAGES)
def test_what_is_read_is_what_kafka_python_reads(message: type[ApiMessage], first: int, last: int) -> None:
    for version in range(first, last + 1):
        maker = Maker(f"{message.__name__} {version}")
        for _ in range(ROUNDS):
            body = codec.encode_response_body(maker.made(message, library.struct_of(message), version), version)
            for read in (body, memoryview(body)):
                ours, _ = decode(message, version, read)
                assert told(ours) == told(message.decode(memoryview(body), version=version))
            for damaged in (maker.damaged(body) for _ in range(DAMAGES)):
                try:
                    ours, _ = decode(message, version, damaged)
                except Malformed:
                    continue
                assert told(ours) == told(message.decode(memoryview(damaged), version=version))


_CLASSIC, _COMPACT = (ApiKey.DESCRIBE_GROUPS, 4), (ApiKey.DESCRIBE_GROUPS, 5)  # a list of strings and a boolean


@pytest.mark.parametrize(
    ("of", "body", "why"),
    [
        (_CLASSIC, b"\0\0\0\1\0\1g\0", None),
        (_CLASSIC, b"\0\0\0\1\0\2g\0", "ends in the middle"),
        (_CLASSIC, b"\0\0\0\1\0\4g\0", "length 4, 2 bytes are left"),
        (_CLASSIC, b"\0\0\0\1\xff\xffg\0", "length -1"),
        (_CLASSIC, b"\xff\xff\xff\xfb\0", "count -5"),
        (_CLASSIC, b"\xff\xff\xff\xff\0", "count -1"),
        (_CLASSIC, b"\0\0\1\0\0\1g\0", "count 256, 4 bytes are left"),
        (_CLASSIC, b"\0\0\0\1\0\1g\0\0", "has 9 bytes, its fields 8"),
        (_CLASSIC, b"\0\0\0\1\0\1\xff\0", "codec can't decode"),
        (_CLASSIC, b"\0\0\0", "ends in the middle"),
        (_COMPACT, b"\2\2g\0\0", None),
        (_COMPACT, b"\2\x82\0g\0\0", None),  # a longer varint than is needed
        (_COMPACT, b"\2\2g\0", "ends in the middle"),
        (_COMPACT, b"\2\0g\0\0", "length -1"),
        (_COMPACT, b"\2\x80\x80\x80\x80\x80\0", "varint"),
        (_COMPACT, b"\2\2g\0\1\7\1x", None),  # an unknown tag
        (_COMPACT, b"\2\2g\0\1\7\2x", "tag 7 has size 2, 1 bytes are left"),
    ],
)
def test_what_is_not_exactly_one_message_is_malformed(of: tuple[ApiKey, int], body: bytes, why: str | None) -> None:
    key, version = of
    if why is None:
        assert codec.decode_request(key, version, body).groups == ["g"]
        return
    with pytest.raises(Malformed, match=why):
        codec.decode_request(key, version, body)


def test_a_tag_that_is_known_fills_its_size() -> None:
    body = codec.encode_response_body(INTERNAL_APIS[ApiKey.BROKER_HEARTBEAT].request(offline_log_dirs=[UUID(int=1)]), 1)
    at = body.index(b"\1\0\x11\2")  # one tag, its number and size, one uuid
    message = INTERNAL_APIS[ApiKey.BROKER_HEARTBEAT].request
    assert decode(message, 1, body)[0].offline_log_dirs == [UUID(int=1)]
    with pytest.raises(Malformed, match="does not fill its size"):
        decode(message, 1, body[: at + 2] + b"\x12" + body[at + 3 :] + b"\0")


def test_an_answer_about_versions_that_has_an_error_is_read_in_version_0() -> None:
    """KIP-511: who does not know the version answers so."""
    answer = codec.encode_response_body(ApiVersionsResponse(error_code=35, api_keys=[]), 0)
    assert codec.decode_response(ApiKey.API_VERSIONS, 4, answer).error_code == 35


def test_a_decoder_is_generated_once() -> None:
    message = INTERNAL_APIS[ApiKey.OFFSET_COMMIT].request
    assert decoder(message, 9) is decoder(message, 9)
    assert decoder(message, 9).source != decoder(message, 10).source


def test_a_uuid_is_the_one_that_python_makes() -> None:
    for written in (bytes(range(16)), bytes([255] * 16)):
        ours = uuid_of(written)
        assert ours == UUID(bytes=written) and hash(ours) == hash(UUID(bytes=written)) and repr(ours)
        assert ours is not None and ours.is_safe is UUID(bytes=written).is_safe
    assert uuid_of(bytes(16)) is None
