"""The relay's way to the node, without its sockets: a client's bytes in, routed segments out.

Requests to the node are never collected: their bytes are passed on as they arrive, in runs as long as one read brought.
Everything else is collected whole into a Frame, and nothing behind it is read until it is answered (Apache Kafka mutes
a connection the same way), so at most one answer per connection is not the node's.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import TypeAlias

from tailrace.net.requests.metrics import API_KEYS
from tailrace.net.requests.times import RequestTimes
from tailrace.net.session import AuthenticationState, ClientSession
from tailrace.wire.apis import ApiKey
from tailrace.wire.codec import Malformed
from tailrace.wire.connection import TLS_HELLO
from tailrace.wire.hot.fetch_quota import cap_int32, max_bytes_at
from tailrace.wire.malformed import NotKafka
from tailrace_gateway.relay import peek
from tailrace_gateway.relay.buffers import Collected
from tailrace_gateway.relay.routes import Route, Row
from tailrace_gateway.relay.slots import CORRELATION_MASK, FETCH, FETCH_FLEXIBLE, PASS, LateAnswer, Slots, Throttled

_HEAD = Struct(">ihhih")  # size, api key, version, correlation id, length of the client id
_SIZE = Struct(">i")
_COMPLETE = AuthenticationState.COMPLETE
_SIZE_CORRELATION_OVER = Struct(">i4xI")  # over api key and version
HEAD_BYTES = _HEAD.size
FRAME_BYTES_MIN = HEAD_BYTES - 4
_FIELDS_BYTES_MAX = 2 * 32_767 + 1024  # client id and transactional id at their longest, and some tags
PRODUCE, FETCH_KEY, INIT_PRODUCER_ID = int(ApiKey.PRODUCE), int(ApiKey.FETCH), int(ApiKey.INIT_PRODUCER_ID)
_NODE, _HERE = int(Route.NODE), int(Route.HERE)
_SASL_AUTHENTICATE = int(ApiKey.SASL_AUTHENTICATE)
RAW_TOKEN = -1  # the version of a token of SASL that has no request around it
_SHORT = (IndexError, struct.error)


@dataclass(slots=True)
class Frame:
    """A request that was collected: `data` is the whole frame with its size; `slot` takes the answer."""

    route: int
    key: int
    version: int
    correlation_id: int
    client_id: bytes
    data: bytes | memoryview
    slot: LateAnswer

    @property
    def body_offset(self) -> int:
        """Where the client id ends in `data`; flexible versions have a tag section there."""
        return HEAD_BYTES + len(self.client_id)


_DATA = frozenset({PRODUCE, FETCH_KEY})


class _Last:
    """The head of the last request for the node; a connection's requests are mostly all of one kind."""

    __slots__ = ("api", "bytes", "cap_at", "key", "kind", "rest")

    def __init__(self) -> None:
        self.api = self.rest = b""
        self.bytes = self.key = self.kind = 0
        self.cap_at = 0  # where a limited client's Fetch has its max_bytes; 0 where that was not looked for


Segment: TypeAlias = tuple[int, int]  # from, to: bytes of the view that was scanned, for the node


class Requests:
    """The client's direction. `scan` may be called again with the bytes it did not consume and more behind them."""

    def __init__(
        self,
        table: Mapping[int, Row],
        slots: Slots,
        session: ClientSession,
        max_frame_bytes: int,
        max_collected_bytes: int,
        times: RequestTimes,
    ) -> None:
        self.table = table
        self.slots = slots
        self.max_frame_bytes = max_frame_bytes
        self.max_collected_bytes = max_collected_bytes
        self.session = session
        self.node_open = False  # an upstream connection to the node exists
        self.node_refused = False  # the node cannot be reached: its requests are collected
        self.node_wanted = False  # set when a request for the node waits at the front
        self.unanswered_sent = False  # an acks=0 Produce went to the node: only closing can report its failure
        self.held: Frame | None = None  # the request being answered elsewhere
        self.times = times
        self._last: _Last | None = None
        self._left = 0  # bytes of a frame in passage that have not come yet
        self._silent = False  # the last frame that was no repetition expects no answer
        self.collecting_bytes = 0  # the size of a request that is being collected
        self._body: Collected | None = None
        self._frame: Frame | None = None

    @property
    def between_frames(self) -> bool:
        """Whether everything scanned so far was whole frames."""
        return self._left == 0

    @property
    def collected_bytes(self) -> int:
        """How much has come of the request that is being collected; -1 where none is."""
        return -1 if self._body is None else self._body.filled

    @property
    def torn_slots(self) -> int:
        """How many slots wait for the answer of a request that has come in part: 0 or 1, the newest."""
        return int(self._left > 0 and not self._silent)

    def scan(self, view: memoryview, end: int) -> tuple[int, list[Segment | Frame]]:
        """Routes the first `end` bytes of the view, which must be writable.

        Returns how many were consumed and what to do, in order. Raises Malformed; segments before it are lost with it.
        """
        out: list[Segment | Frame] = []
        data = view[:end]
        start = at = 0
        if self._left:
            at = min(self._left, end)
            self._left -= at
            if self._body is not None:
                self._body.add(data[:at])
                start = at
                if not self._left:
                    out.append(self._collected())
        session = self.session
        while end - at >= 4 and self.held is None and not session.throttle_time_ms:
            size = self._like_the_last(data, at, end)
            passes = size > 0
            if not passes:
                row, size, passes = self._head(data, at, end)
                if row is None:
                    break
            frame_end = at + 4 + size
            taken = frame_end if frame_end <= end else end
            self._left = frame_end - taken
            if passes:
                at = taken
                continue
            if start < at:
                out.append((start, at))
            self.collecting_bytes = size + 4
            self._body = Collected(size + 4)
            self._body.add(data[at:taken])
            at = start = taken
            if not self._left:
                out.append(self._collected())
        if start < at:
            out.append((start, at))
        return at, out

    def _like_the_last(self, data: memoryview, at: int, end: int) -> int:
        """The size of a frame whose head says the same as the last one's; 0 if it must be read, as most need not be."""
        last = self._last
        if last is None or not self.node_open or end - at < last.bytes:
            return 0
        meter = self.session.meter
        size, correlation_id = _SIZE_CORRELATION_OVER.unpack_from(data, at)
        if (
            data[at + 4 : at + 8] != last.api
            or data[at + 12 : at + last.bytes] != last.rest
            or not last.bytes - 4 <= size <= self.max_frame_bytes
            or (meter.fetch_limited and last.key == FETCH_KEY and not self._capped(data, at, end, size, last))
        ):
            return 0
        self.times.handle(last.key)
        if meter.produce_limited and last.key == PRODUCE and (throttle_time_ms := meter.produced(size)):
            self.session.report_throttle(throttle_time_ms)
            version = int.from_bytes(last.api[2:], "big")
            self.slots.append(Throttled(version, correlation_id, throttle_time_ms))
        else:
            self.slots.append(last.kind | correlation_id)
        return int(size)

    def _capped(self, data: memoryview, at: int, end: int, size: int, last: _Last) -> bool:
        """Lowers max_bytes of a Fetch with the head of the last one; False where it must be looked for."""
        cap_at = last.cap_at
        if not cap_at or size < cap_at or end - at < cap_at + 4:
            return False
        cap_int32(data, at + cap_at, self.session.meter.fetch_max_bytes())
        return True

    def _remember(self, data: memoryview, at: int, fields_end: int, key: int, kind: int, cap_at: int = 0) -> None:
        """What the next frame's head is compared with: everything that was read but size and correlation id."""
        last = self._last
        if last is None:
            last = self._last = _Last()
        last.api, last.rest = bytes(data[at + 4 : at + 8]), bytes(data[at + 12 : fields_end])
        last.bytes, last.key, last.kind, last.cap_at = fields_end - at, key, kind, cap_at

    def _head(self, data: memoryview, at: int, end: int) -> tuple[Row | None, int, bool]:
        """Reads one head: (row, or None when more bytes or the node are needed; size; whether it goes to the node)."""
        (size,) = _SIZE.unpack_from(data, at)
        session = self.session
        known = session.authentication is _COMPLETE
        if not known and session.raw_tokens:
            return self._raw_token(size)
        if not FRAME_BYTES_MIN <= size <= self.max_frame_bytes:
            raise NotKafka(not_kafka(bytes(data[at : at + 8]), size))
        if end - at < HEAD_BYTES:
            return None, 0, False
        _, key, version, correlation_id, id_bytes = _HEAD.unpack_from(data, at)
        row = self.table.get(key)
        if row is None or not row.min_version <= version <= row.max_version:
            row = self._unserved(key, version)
        body = at + HEAD_BYTES + (id_bytes if id_bytes > 0 else 0)
        if body > at + 4 + size or id_bytes < -1:
            raise Malformed(f"client id has length {id_bytes} in a frame of {size} bytes")
        if body > end:
            return None, 0, False
        client_id = bytes(data[at + HEAD_BYTES : body])
        if client_id != session.client_id:
            session.rename(client_id)
        if not known:
            session.take(key)
        if row.route == _NODE:
            try:
                passes = self._to_node(data, at, body, size, row, key, version, correlation_id)
            except (ValueError, *_SHORT) as short:
                if end >= at + 4 + size or isinstance(short, ValueError):
                    raise Malformed(f"api key {key} version {version} ends too early: {short}") from short
                if end - at > _FIELDS_BYTES_MAX:
                    raise Malformed(f"the first fields of api key {key} take more than {end - at} bytes") from short
                return None, 0, False
            if passes is None:
                return None, 0, False
            if passes:
                self.times.handle(key, answers=not self._silent)
                return row, size, True
        if size > self.max_collected_bytes:
            raise Malformed(f"a request of {size} bytes (api key {key}) cannot be kept until it is answered")
        if key < API_KEYS:
            self.times.handle(key)
        else:
            self.times.pass_over()
        self._silent = False
        slot = LateAnswer()
        self.slots.append(slot)
        self._frame = self.held = Frame(row.route, key, version, correlation_id, client_id, b"", slot)
        return row, size, False

    def _raw_token(self, size: int) -> tuple[Row, int, bool]:
        """A token of SASL without a header (SaslHandshake v0)."""
        if not 0 <= size <= self.max_frame_bytes:
            raise NotKafka(f"a SASL token of {size} bytes was announced")
        slot = LateAnswer()
        self.slots.append(slot)
        self.times.pass_over()
        self._silent = False
        self._frame = self.held = Frame(_HERE, _SASL_AUTHENTICATE, RAW_TOKEN, 0, self.session.client_id, b"", slot)
        return self.table[_SASL_AUTHENTICATE], size, False

    def _to_node(
        self, data: memoryview, at: int, body: int, size: int, row: Row, key: int, version: int, correlation_id: int
    ) -> bool | None:
        """Leaves the mark of a request for the node; False collects it instead, None waits for the node."""
        flexible = version >= row.flexible_from
        self._silent = False
        if key == INIT_PRODUCER_ID and peek.transactional_id(data, body, flexible):
            return False
        if not self.node_open:
            self.node_wanted = not self.node_refused
            return False if self.node_refused else None
        session = self.session
        if session.may_owe and key in _DATA and session.owes():
            return None
        kind, fields_end, cap_at = PASS, body, 0
        correlation_id &= CORRELATION_MASK
        if key == PRODUCE:
            acks, fields_end = peek.produce_acks(data, body, flexible)
            if fields_end > at + 4 + size:
                raise ValueError("acks lies outside the frame")
            if session.meter.produce_limited and (throttle_time_ms := session.meter.produced(size)):
                session.report_throttle(throttle_time_ms)
            if acks == 0:
                self.unanswered_sent = self._silent = True
                self._last = None  # a repetition of that one would not say that it is answered
                return True
            if session.throttle_time_ms:
                self.slots.append(Throttled(version, correlation_id, session.throttle_time_ms))
                return True
        elif key == FETCH_KEY:
            if session.meter.fetch_limited:
                cap_at = peek.fetch_max_bytes_at(data, body, version, flexible)
                if cap_at + 4 > at + 4 + size:
                    raise ValueError("max_bytes lies outside the frame")
                cap_int32(data, cap_at, session.meter.fetch_max_bytes())
                fields_end, cap_at = cap_at - max_bytes_at(version), cap_at - at  # with the tags, whose size moves it
            kind = FETCH_FLEXIBLE if flexible else FETCH
        if key != INIT_PRODUCER_ID:
            self._remember(data, at, fields_end, key, kind, cap_at)
        self.slots.append(kind | correlation_id)
        return True

    def _unserved(self, key: int, version: int) -> Row:
        """KIP-511: ApiVersions of any version is answered; everything else unknown closes the connection."""
        row = self.table.get(key)
        if row is None:
            raise Malformed(f"api key {key} (version {version}) is not served here")
        if key != ApiKey.API_VERSIONS or version < 0:
            raise Malformed(
                f"api key {key} is served in versions {row.min_version}-{row.max_version}, not in {version}"
            )
        return row

    def _collected(self) -> Frame:
        frame, body = self._frame, self._body
        assert frame is not None and body is not None
        frame.data = body.whole()
        self.drop()
        return frame

    def forget_the_last(self) -> None:
        """Reads the next head whole: what was true of the last one may be so no more."""
        self._last = None

    def drop(self) -> None:
        """Forgets what has come of a request that is collected."""
        self._frame = self._body = None
        self.collecting_bytes = 0

    def answered(self) -> None:
        """The held request has its answer (or became the node's): reading may go on."""
        self.held = None


def not_kafka(first: bytes, size: int) -> str:
    """Says what was probably sent to the Kafka port, for the log line of the connection it closes."""
    if first[:3] in {b"GET", b"POS", b"PUT", b"HEA", b"DEL", b"OPT", b"CON", b"PAT", b"PRI"}:
        return "an HTTP request was sent to the Kafka port"
    if first.startswith(TLS_HELLO):
        return "a TLS handshake was sent to the plaintext Kafka port"
    return f"a frame of {size} bytes was announced"
