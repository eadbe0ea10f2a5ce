"""A raw wire client: any API at any version, one socket, no negotiation. Speaks with kafka-python's codec.

The codec is not the code under test, so a mistake of tailrace.wire cannot cancel itself out. Every answer is checked
to be decoded to its last byte.
"""

import importlib
import pkgutil
import socket
import struct
from types import TracebackType
from typing import Any, Self

import kafka.protocol
from kafka.protocol.api_message import ApiMessage

from support.waiting import HUNG_S
from tailrace.wire import descriptors
from tailrace.wire.library import struct_of

API_VERSIONS = 18
MAX_ANSWER_BYTES = 100 * 1024 * 1024


def _classes() -> dict[tuple[int, bool], Any]:
    found: dict[tuple[int, bool], Any] = {}
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" in module.name or "generate" in module.name:
            continue
        for item in vars(importlib.import_module(module.name)).values():
            if isinstance(item, type) and issubclass(item, ApiMessage) and item is not ApiMessage:
                found[item.API_KEY, item.is_request()] = item
    return found


class UnregisterBrokerRequest(ApiMessage, load_json="support.schemas"):
    """KIP-631; kafka-python has none."""


class UnregisterBrokerResponse(ApiMessage, load_json="support.schemas"):
    """KIP-631; kafka-python has none."""


# Versions that kafka-python does not have; tests/protocol holds their schemas against kio's and Kafka's own.
_OWN = {
    (found.API_KEY, found.is_request()): found
    for found in (
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
        descriptors.ApiVersionsRequest,
        descriptors.ApiVersionsResponse,
        descriptors.ConsumerGroupDescribeRequest,
        descriptors.ConsumerGroupDescribeResponse,
        descriptors.ConsumerGroupHeartbeatRequest,
        descriptors.ConsumerGroupHeartbeatResponse,
        descriptors.DeleteGroupsRequest,
        descriptors.DeleteGroupsResponse,
        descriptors.TxnOffsetCommitRequest,
        descriptors.TxnOffsetCommitResponse,
    )
}
CLASSES = _classes() | _OWN
REQUESTS = {key: cls for (key, is_request), cls in CLASSES.items() if is_request}
RESPONSES = {key: cls for (key, is_request), cls in CLASSES.items() if not is_request}


def build(key: int, /, **fields: Any) -> Any:
    """A request from plain values: a nested structure is a dict, a list of them a list of dicts."""
    return _structure(REQUESTS[key], fields)


def _structure(cls: Any, values: dict[str, Any]) -> Any:
    fields = struct_of(cls).fields
    return cls(**{name: _value(fields[name], value) for name, value in values.items()})


def _value(field: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return _structure(field.data_class, value)
    if isinstance(value, list):
        return [_value(field, item) for item in value]
    return value


class ConnectionClosed(Exception):
    """The server closed the connection."""


def request_header(key: int, version: int, correlation_id: int, client_id: str, flexible: bool) -> bytes:
    """Request header v1, or v2 with its empty tagged fields."""
    name = client_id.encode()
    header = struct.pack(">hhih", key, version, correlation_id, len(name)) + name
    return header + b"\0" if flexible else header


def framed(payload: bytes) -> bytes:
    """The payload with its four-byte size in front."""
    return struct.pack(">i", len(payload)) + payload


class Raw:
    """One connection."""

    def __init__(
        self, host: str, port: int, *, timeout_s: float = HUNG_S, client_id: str = "raw", source_host: str = ""
    ) -> None:
        self.socket = socket.create_connection((host, port), timeout_s, (source_host, 0) if source_host else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self.correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the socket."""
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self.socket.sendall(data)

    def send(self, request: Any, version: int) -> int:
        """Sends a request; answers its correlation id."""
        self.correlation_id += 1
        flexible = type(request).flexible_version_q(version)
        key = type(request).API_KEY
        header = request_header(key, version, self.correlation_id, self.client_id, flexible)
        self.send_bytes(framed(header + request.encode(version=version)))
        return self.correlation_id

    def receive_frame(self) -> bytes:
        """The payload of the next answer frame."""
        size = struct.unpack(">i", self._exactly(4))[0]
        assert 0 <= size <= MAX_ANSWER_BYTES, f"answer frame of {size} bytes"
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                chunk = self.socket.recv(size - len(data))
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise ConnectionClosed(f"after {len(data)} of {size} bytes")
            data += chunk
        return bytes(data)

    def receive(self, key: int, version: int, correlation_id: int) -> Any:
        """Decodes the next answer as the response of this API and version."""
        frame = self.receive_frame()
        answered = struct.unpack_from(">i", frame)[0]
        assert answered == correlation_id, f"answer to {answered} instead of {correlation_id}"
        response = RESPONSES[key]
        flexible = response.flexible_version_q(version)
        start = 4
        if flexible and key != API_VERSIONS:  # its response header is always v0 (KIP-511)
            assert frame[4] == 0, "tagged fields in a response header"
            start = 5
        return decode(response, version, frame[start:])

    def ask(self, request: Any, version: int) -> Any:
        """Sends a request and decodes its answer."""
        correlation_id = self.send(request, version)
        return self.receive(type(request).API_KEY, version, correlation_id)

    def is_closed_by_server(self) -> bool:
        """Waits for the server to close; False if it sends something instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def decode(response: Any, version: int, body: bytes) -> Any:
    """Decodes a response body and checks that nothing is left over."""
    flexible = response.flexible_version_q(version)
    read = struct_of(response).compiled_decode_from(
        version, compact=flexible, tagged=flexible, data_class=response[None]
    )
    message, end = read(memoryview(body), 0)
    assert end == len(body), f"{response.__name__} v{version}: {len(body) - end} bytes left over"
    return message
