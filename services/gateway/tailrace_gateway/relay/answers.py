"""The relay's way back, without its sockets: a node's bytes in, answers out in the order in which they are due."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TypeAlias

from tailrace.net.session import ClientSession
from tailrace.wire.codec import Malformed
from tailrace.wire.hot.fetch_quota import throttle_time_at
from tailrace_gateway.relay.requests import Segment
from tailrace_gateway.relay.slots import CORRELATION_MASK, FETCH, FETCH_FLEXIBLE, PASS, LateAnswer, Slots, Throttled

_SIZE_CORRELATION = Struct(">iI")
_THROTTLE = Struct(">i")
# Of some 1,000 partitions. The answer is decoded and encoded for it, and all clients wait: 131 KB took 32 ms.
_PATCHED_BYTES_MAX = 32_768

Answer: TypeAlias = "Segment | bytes | memoryview | ThrottledAnswer"


@dataclass(slots=True)
class ThrottledAnswer:
    """A Produce answer, collected because its throttle_time_ms must be set; `data` is the whole frame."""

    mark: Throttled
    data: bytes


class Answers:
    """The node's direction: checks that each answer is the one that is due and passes its bytes on."""

    def __init__(self, slots: Slots, session: ClientSession) -> None:
        self.slots = slots
        self.session = session
        self.greeted = False  # the preamble's answer has come
        self._left = 0

    @property
    def between_frames(self) -> bool:
        """Whether everything passed on so far was whole frames."""
        return self._left == 0

    def scan(self, view: memoryview, end: int) -> tuple[int, list[Answer]]:
        """Takes the first `end` bytes of the view, which must be writable; as Requests.scan.

        Raises Malformed for an answer nobody asked for, which breaks the connection.
        """
        out: list[Answer] = []
        start = at = 0
        if self._left:
            at = min(self._left, end)
            self._left -= at
            if not self._left:
                start = self._finish(out, 0, at)
        while end - at >= 8:
            size, correlation_id = _SIZE_CORRELATION.unpack_from(view, at)
            frame_end = at + 4 + size
            if size < 4:
                raise Malformed(f"the node announced an answer of {size} bytes")
            if not self.greeted:
                if end < frame_end:
                    break
                self._greet(view, at, size)
                start = at = frame_end
                continue
            mark = self._due(correlation_id)
            if isinstance(mark, Throttled) and size > _PATCHED_BYTES_MAX:
                mark = PASS  # the mute alone must do
            if isinstance(mark, Throttled):
                if end < frame_end:
                    break
                self.slots.popleft()
                if start < at:
                    out.append((start, at))
                out.append(ThrottledAnswer(mark, bytes(view[at:frame_end])))
                out.extend(self.slots.release())
                start = at = frame_end
                continue
            if mark >= FETCH and self.session.meter.fetch_limited:
                if end - at < 13:
                    break
                self._charge(view, at, size, mark)
            taken = min(frame_end, end)
            self._left = frame_end - taken
            at = taken
            if not self._left:
                start = self._finish(out, start, at)
        if start < at:
            out.append((start, at))
        return at, out

    def _finish(self, out: list[Answer], start: int, at: int) -> int:
        """One whole answer passed: what waited behind it may leave. Returns where the next run starts."""
        slots = self.slots
        slots.popleft()
        if slots and type(slots[0]) is LateAnswer:
            out.append((start, at))
            out.extend(slots.release())
            return at
        return start

    def _due(self, correlation_id: int) -> int | Throttled:
        mark = self.slots[0] if self.slots else None
        if mark is None or type(mark) is LateAnswer:
            raise Malformed("the node sent an answer nobody asked for")
        due = mark.correlation_id if type(mark) is Throttled else mark & CORRELATION_MASK
        if due != correlation_id:
            raise Malformed(f"the node answered correlation id {correlation_id} where {due} was due")
        return mark

    def _charge(self, view: memoryview, at: int, size: int, mark: int) -> None:
        throttle_time_ms = self.session.meter.fetched(size)
        if throttle_time_ms:
            self.session.report_throttle(throttle_time_ms)
            _THROTTLE.pack_into(view, at + throttle_time_at(flexible=mark >= FETCH_FLEXIBLE), throttle_time_ms)

    def _greet(self, view: memoryview, at: int, size: int) -> None:
        # Preamble's answer: correlation id, empty tag section, error_code.
        if size < 7:
            raise Malformed("the node's answer to the preamble is too short")
        error_code = int.from_bytes(view[at + 9 : at + 11], "big", signed=True)
        if error_code:
            raise Malformed(f"the node refused the preamble: error {error_code}")
        self.greeted = True
