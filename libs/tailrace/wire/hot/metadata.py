"""Metadata answers that are put together from topics encoded before: most ask for the same ones again and again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from struct import Struct
from typing import Any, Final

from tailrace.wire import codec
from tailrace.wire.messages import MetadataResponse
from tailrace.wire.varint import unsigned

_FLEXIBLE_FROM: Final = 9
_I32 = Struct(">i")


def encode_topic(topic: Any, version: int) -> bytes:
    """One MetadataResponseTopic as it stands in an answer: what lies between the rest of one that tells it alone."""
    alone = codec.encode_response_body(_response(topic), version)
    return alone[_bytes_before(version) : len(alone) - _bytes_behind(version)]


def encode_metadata(response: Any, version: int, topics: Sequence[bytes]) -> bytes:
    """The body of a response that has no topics yet, with these."""
    assert not response.topics
    body = codec.encode_response_body(response, version)
    flexible = version >= _FLEXIBLE_FROM
    none, count = (unsigned(1), unsigned(len(topics) + 1)) if flexible else (_I32.pack(0), _I32.pack(len(topics)))
    at = len(body) - _bytes_behind(version)
    assert body[at - len(none) : at] == none
    return b"".join((body[: at - len(none)], count, *topics, body[at:]))


def _response(*topics: Any) -> MetadataResponse:
    return MetadataResponse(brokers=[], cluster_id=None, controller_id=-1, topics=list(topics))


@cache
def _bytes_before(version: int) -> int:
    return len(codec.encode_response_body(_response(), version)) - _bytes_behind(version)


def _bytes_behind(version: int) -> int:
    """The cluster's authorized operations (v8-10), the error code (v13), tagged fields."""
    return 4 * (8 <= version <= 10) + 2 * (version >= 13) + (version >= _FLEXIBLE_FROM)
