"""Request headers and tag sections, read by hand: every frame passes here (protocol guide, request header v1 and v2).

Requests before flexible versions carry header v1: api key, version, correlation id, client id. Flexible ones add a tag
section (v2); the client id keeps its two-byte length in both. Response headers are a correlation id, plus a
tag section in flexible versions; ApiVersions answers never have the tag section (KIP-511).
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from tailrace.wire.apis import INTERNAL_APIS, NEVER, ApiKey
from tailrace.wire.malformed import Malformed
from tailrace.wire.pieces import Bytes
from tailrace.wire.varint import read_unsigned

_HEAD = Struct(">hhih")
HEAD_BYTES = _HEAD.size
# The first flexible version of each API; looked up per frame, so a plain dict of ints.
FLEXIBLE_FROM: dict[int, int] = {key: api.flexible_from for key, api in INTERNAL_APIS.items()}


class RequestHeader(NamedTuple):
    """What routing needs of a request; body_offset is where the body starts in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def parse_request_header(frame: Bytes) -> RequestHeader:
    """Reads the header of a frame (without its size). An unknown api key is read as header v1.

    Raises Malformed if the frame is shorter than its header or the client id is not UTF-8.
    """
    if len(frame) < HEAD_BYTES:
        raise Malformed(f"a request of {len(frame)} bytes has no header")
    api_key, api_version, correlation_id, length = _HEAD.unpack_from(frame)
    pos = HEAD_BYTES
    client_id = None
    if length >= 0:
        pos += length
        if pos > len(frame):
            raise Malformed(f"client id has length {length}, {len(frame) - HEAD_BYTES} bytes are left")
        try:
            client_id = str(frame[HEAD_BYTES:pos], "utf-8")
        except UnicodeDecodeError as bad:
            raise Malformed("client id is not UTF-8") from bad
    elif length != -1:
        raise Malformed(f"client id has length {length}")
    if api_version >= FLEXIBLE_FROM.get(api_key, NEVER):
        pos = skip_tags(frame, pos)
    return RequestHeader(api_key, api_version, correlation_id, client_id, pos)


def skip_request_header(frame: Bytes) -> tuple[int, int, int, int]:
    """(api key, version, correlation id, body offset): what the hot path needs of a header. Raises Malformed."""
    if len(frame) < HEAD_BYTES:
        raise Malformed(f"a request of {len(frame)} bytes has no header")
    api_key, version, correlation_id, length = _HEAD.unpack_from(frame)
    pos = HEAD_BYTES
    if length > 0:
        pos += length
        if pos > len(frame):
            raise Malformed(f"client id has length {length}, {len(frame) - HEAD_BYTES} bytes are left")
    elif length < -1:
        raise Malformed(f"client id has length {length}")
    if version >= FLEXIBLE_FROM.get(api_key, NEVER):
        pos = skip_tags(frame, pos)
    return api_key, version, correlation_id, pos


def skip_tags(frame: Bytes, pos: int) -> int:
    """Steps over a tag section (KIP-482) and returns the position after it."""
    try:
        return pos + 1 if frame[pos] == 0 else end_of_tags(frame, pos)
    except IndexError as short:
        raise Malformed("tag section runs past the frame") from short


def end_of_tags(view: Bytes, pos: int) -> int:
    """The position behind the tag section (KIP-482) at pos. Raises IndexError where the bytes end too early."""
    if view[pos] == 0:
        return pos + 1
    count, pos = read_unsigned(view, pos)
    for _ in range(count):
        _, pos = read_unsigned(view, pos)
        size, pos = read_unsigned(view, pos)
        pos += size
        if pos > len(view):
            raise IndexError
    return pos


def read_tags(view: memoryview, pos: int) -> tuple[dict[int, memoryview], int]:
    """The bytes of each tag by its number, and the position behind the section. Raises as end_of_tags."""
    if view[pos] == 0:
        return {}, pos + 1
    count, pos = read_unsigned(view, pos)
    found = {}
    for _ in range(count):
        tag, pos = read_unsigned(view, pos)
        size, pos = read_unsigned(view, pos)
        if pos + size > len(view):
            raise IndexError
        found[tag] = view[pos : pos + size]
        pos += size
    return found, pos


def response_header_bytes(api_key: int, api_version: int) -> int:
    """How many bytes the response header takes after the size: 4, or 5 with the empty tag section."""
    flexible = api_key != ApiKey.API_VERSIONS and api_version >= FLEXIBLE_FROM.get(api_key, NEVER)
    return 5 if flexible else 4
