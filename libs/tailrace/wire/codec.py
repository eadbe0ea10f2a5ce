"""The one typed decode and encode over kafka-python's schema-driven structs.

Bodies are decoded by decoder.py, and what does not match its schema is Malformed: the caller closes the connection, as
Apache Kafka does.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.decoder import decode
from tailrace.wire.encode_buffer import EncodeBuffer
from tailrace.wire.header import response_header_bytes, skip_tags
from tailrace.wire.library import compiled_encoder, set_version
from tailrace.wire.limits import CODES
from tailrace.wire.malformed import Malformed, TooManyRows
from tailrace.wire.messages import ApiMessage
from tailrace.wire.pieces import Bytes
from tailrace.wire.repeats import answered_once

__all__ = [
    "Malformed",
    "decode_request",
    "decode_response",
    "encode_large_request",
    "encode_large_response",
    "encode_request",
    "encode_response",
    "encode_response_body",
    "response_body",
    "response_correlation_id",
    "response_frame",
]

_SIZE_AND_CORRELATION = Struct(">ii")
_CORRELATION = Struct(">i")
_NO_TAGS = b"\x00"
_UNSUPPORTED_VERSION = b"\x00\x23"


# librdkafka (2.16) asks for all topics with an array count of four bytes in a flexible Metadata request, which leaves
# three bytes over. Kafka ignores trailing bytes everywhere; here only where a real client needs it.
_TRAILING_BYTES_FROM = 9


def decode_request(key: int, version: int, body: Bytes) -> Any:
    """Decodes a request's body (header already taken off), with what it names twice named once.

    Raises Malformed; TooManyRows for one that its API refuses with an error code.
    """
    trailing = key == ApiKey.METADATA and version >= _TRAILING_BYTES_FROM
    request, excess = decode(INTERNAL_APIS[key].request, version, body, trailing)
    if excess is not None:
        path, (most, above) = excess
        raise TooManyRows(f"{path} has more than {most} rows in one request", request, CODES[above])
    return answered_once(key, request)


def decode_response(key: int, version: int, body: Bytes) -> Any:
    """Decodes a response's body (header already taken off). Raises Malformed."""
    if key == ApiKey.API_VERSIONS and bytes(body[:2]) == _UNSUPPORTED_VERSION:
        version = 0  # KIP-511: of a peer that does not know the version
    response, _ = decode(INTERNAL_APIS[key].response, version, body)
    return response


def response_body(key: int, version: int, frame: Bytes) -> memoryview:
    """The body of a response frame (without its size): past the correlation id and the tag section."""
    view = memoryview(frame)
    if response_header_bytes(key, version) == _CORRELATION.size:
        return view[4:]
    return view[skip_tags(view, 4) :]


def response_correlation_id(frame: Bytes) -> int:
    """The correlation id of a response frame (without its size)."""
    if len(frame) < _CORRELATION.size:
        raise Malformed(f"a response of {len(frame)} bytes has no header")
    (correlation_id,) = _CORRELATION.unpack_from(frame)
    return int(correlation_id)


def encode_request(message: ApiMessage, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A whole request frame: size, header, body."""
    set_version(message, version)
    message.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(message.encode(header=True, framed=True))


def encode_large_request(message: ApiMessage, version: int, correlation_id: int, client_id: str | None) -> memoryview:
    """As encode_request, without one long step."""
    set_version(message, version)
    message.with_header(correlation_id=correlation_id, client_id=client_id)
    out = EncodeBuffer()
    out += bytes(message.encode_header(flexible=message.flexible_version_q(version)))
    compiled_encoder(message, version)(message, out)
    return out.request_frame()


def encode_large_response(message: ApiMessage, version: int, correlation_id: int) -> memoryview:
    """As encode_response, without one long step."""
    set_version(message, version)
    out = EncodeBuffer()
    compiled_encoder(message, version)(message, out)
    return out.response_frame(message.API_KEY, version, correlation_id)


def encode_response_body(message: ApiMessage, version: int) -> bytes:
    """The body alone, for places that write their own header."""
    set_version(message, version)
    return bytes(message.encode())


def encode_response(message: ApiMessage, version: int, correlation_id: int) -> bytes:
    """A whole response frame: size, header, body."""
    return response_frame(message.API_KEY, version, correlation_id, encode_response_body(message, version))


def response_frame(key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """A whole response frame around a body."""
    head_bytes = response_header_bytes(key, version)
    head = _SIZE_AND_CORRELATION.pack(len(body) + head_bytes, correlation_id)
    return head + body if head_bytes == _CORRELATION.size else head + _NO_TAGS + body
