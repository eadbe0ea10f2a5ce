"""Metadata answers that are put together from topics encoded before: most ask for the same ones again and again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from struct import Struct
from typing import Any, Final
from uuid import UUID

from tailrace.wire import codec
from tailrace.wire.encode_buffer import EncodeBuffer
from tailrace.wire.messages import MetadataResponse
from tailrace.wire.varint import unsigned

_FLEXIBLE_FROM: Final = 9
_TOPICS_AT_ONCE: Final = 1000  # a join keeps all other threads waiting
_OPERATIONS_FROM: Final = 8
_IDS_FROM: Final = 10
_I16 = Struct(">h")
_I32 = Struct(">i")
_NO_ID: Final = bytes(16)
_NO_OPERATIONS: Final = _I32.pack(-(1 << 31))


def encode_topic(topic: Any, version: int) -> bytes:
    """One MetadataResponseTopic as it stands in an answer: what lies between the rest of one that tells it alone."""
    alone = codec.encode_response_body(_response(topic), version)
    return alone[_bytes_before(version) : len(alone) - _bytes_behind(version)]


def encode_refused_topic(
    version: int, error_code: int, name: str | None, topic_id: UUID | None, is_internal: bool
) -> bytes:
    """The same of a topic that is described by its error alone: a request may name thousands that are not there."""
    flexible = version >= _FLEXIBLE_FROM
    if name is None:
        written = b"\x00" if flexible else b"\xff\xff"
    else:
        text = name.encode()
        written = (unsigned(len(text) + 1) if flexible else _I16.pack(len(text))) + text
    parts = (
        _I16.pack(error_code),
        written,
        b"" if version < _IDS_FROM else _NO_ID if topic_id is None else topic_id.bytes,
        b"" if version < 1 else b"\x01" if is_internal else b"\x00",
        _length(0, version),
        _NO_OPERATIONS if version >= _OPERATIONS_FROM else b"",
        b"\x00" if flexible else b"",
    )
    return b"".join(parts)


def encode_metadata(response: Any, version: int, topics: Sequence[bytes]) -> EncodeBuffer:
    """The body of a response that has no topics yet, with these."""
    assert not response.topics
    body = codec.encode_response_body(response, version)
    none, count = _length(0, version), _length(len(topics), version)
    at = len(body) - _bytes_behind(version)
    assert body[at - len(none) : at] == none
    out = EncodeBuffer()
    out += body[: at - len(none)] + count
    for first in range(0, len(topics), _TOPICS_AT_ONCE):
        out += b"".join(topics[first : first + _TOPICS_AT_ONCE])
    out += body[at:]
    return out


def _length(count: int, version: int) -> bytes:
    return unsigned(count + 1) if version >= _FLEXIBLE_FROM else _I32.pack(count)


def _response(*topics: Any) -> MetadataResponse:
    return MetadataResponse(brokers=[], cluster_id=None, controller_id=-1, topics=list(topics))


@cache
def _bytes_before(version: int) -> int:
    return len(codec.encode_response_body(_response(), version)) - _bytes_behind(version)


def _bytes_behind(version: int) -> int:
    """The cluster's authorized operations (v8-10), the error code (v13), tagged fields."""
    return 4 * (8 <= version <= 10) + 2 * (version >= 13) + (version >= _FLEXIBLE_FROM)
