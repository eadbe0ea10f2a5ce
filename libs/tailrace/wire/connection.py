"""Kafka's connection without its socket: bytes in, whole frames out; answers out in the order of the requests.

ServerConnection is the end of a listener, ClientConnection the end that asks. Neither reads, writes or waits:
tailrace.net brings the bytes and takes the answers (net/transport). Every whole frame is handed over once and in order,
or the connection has to be closed, and Malformed or the fate says why.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from struct import Struct
from typing import Any, Final, Generic, TypeVar

from tailrace.wire.malformed import Malformed, NotKafka
from tailrace.wire.pieces import Answer, Piece

SIZE: Final = Struct(">i")
IN_FLIGHT_MAX: Final = 256
MOST_ANSWER_BYTES: Final = 1 << 30
# Answers that are collected before they are written; above it the client must take some first.
_ANSWERED_MAX_BYTES: Final = 1_048_576
LEAST_REQUEST_BYTES: Final = 8
_LEAST_ANSWER_BYTES: Final = 4
_CORRELATION_ID = Struct(">i")

# Why no request is handled; one is when none of these is set, and neither too many nor too large answers wait.
CLOSED: Final = 1  # no more are, forever
BUSY: Final = 2  # an ordinary request is being answered: the next one waits, as in Kafka
AWAITED: Final = 4  # a hot request waits for data, and the next one for it
UNTAKEN: Final = 8  # the client does not take its answers
MUTED: Final = 16  # for a throttle time (KIP-219)

_Whom = TypeVar("_Whom")


class Promised:
    """The slot of a hot request whose answer comes later while the next requests go on: set answer, then call flush."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self.answer: list[Piece] | None = None


class Fate(Enum):
    """What becomes of a connection once everything that may be handled has been."""

    GOES_ON = "it goes on"
    DONE = "the client has ended, and has all its answers"
    TORN = "the connection ended in the middle of a frame"


TLS_HELLO = b"\x16\x03"  # how every handshake of TLS begins


class ServerConnection:
    """What was asked on one connection, and what is owed for it.

    A slot of `slots` is an answer's frame, a list of its buffers (filled by the end of the read), or a Promised.
    """

    __slots__ = ("answered_bytes", "ended", "max_frame_bytes", "min_frame_bytes", "slots", "stops")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.min_frame_bytes = LEAST_REQUEST_BYTES
        self.slots: deque[Answer | Promised] = deque()
        self.stops = 0
        self.answered_bytes = 0  # of answers that are known and not taken yet
        self.ended = False  # the client sends no more

    # -- bytes in -------------------------------------------------------------------------------------------------

    @property
    def may_handle(self) -> bool:
        """Whether the next request may be handled: nothing before it waits, and the client takes its answers."""
        return not self.stops and len(self.slots) < IN_FLIGHT_MAX and self.answered_bytes <= _ANSWERED_MAX_BYTES

    def receive(
        self, view: memoryview, filled: int, handle: Callable[[memoryview], object], full: Callable[[], None]
    ) -> tuple[int, int]:
        """Hands over each whole frame of the first `filled` bytes that may be handled; full: answers must leave first.

        A frame for which `handle` returns something was not handled.

        Returns how many bytes were handled, and the size of the frame behind them if that has yet to come. Raises
        Malformed. What was not handled comes again, with more behind it.
        """
        pos, need, slots = 0, 0, self.slots
        if self.answered_bytes > _ANSWERED_MAX_BYTES:
            return pos, need
        while filled - pos >= 4 and not self.stops and len(slots) < IN_FLIGHT_MAX:
            (size,) = SIZE.unpack_from(view, pos)
            if not self.min_frame_bytes <= size <= self.max_frame_bytes:
                if bytes(view[pos : pos + len(TLS_HELLO)]) == TLS_HELLO:
                    raise NotKafka("a TLS handshake was sent to the plaintext Kafka port")
                raise NotKafka(f"frame size {size} is not between {self.min_frame_bytes} and {self.max_frame_bytes}")
            end = pos + 4 + size
            if end > filled:
                need = size + 4
                break
            if handle(view[pos + 4 : end]):
                break
            pos = end
            if self.answered_bytes > _ANSWERED_MAX_BYTES:
                full()
                if self.answered_bytes > _ANSWERED_MAX_BYTES:  # they are behind a promised one
                    break
        return pos, need

    # -- answers out ----------------------------------------------------------------------------------------------

    def take_ready(self) -> list[Piece]:
        """The buffers of every answer that is ready and not behind one that is not."""
        slots = self.slots
        out: list[Piece] = []
        while slots:
            slot: Any = slots[0]  # narrowed by its type below, at less cost than isinstance
            if type(slot) is Promised:
                slot = slot.answer
                if slot is None:
                    break
            slots.popleft()
            if type(slot) is list:
                out.extend(slot)
            else:
                out.append(slot)
        if not slots:
            self.answered_bytes = 0
        elif self.answered_bytes > _ANSWERED_MAX_BYTES:
            self.answered_bytes = max(0, self.answered_bytes - sum(map(len, out)))
        return out

    # -- the end --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Handles no further request."""
        self.stops |= CLOSED

    def fate(self, unread_bytes: int) -> Fate:
        """What becomes of the connection, with so many bytes that were not handled."""
        if self.slots or self.stops:
            return Fate.GOES_ON
        if self.ended:
            return Fate.TORN if unread_bytes else Fate.DONE
        return Fate.GOES_ON


class ClientConnection(Generic[_Whom]):
    """What was asked and is not answered, oldest first, with whom each answer is for."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, _Whom]] = deque()

    def asked(self, correlation_id: int, whom: _Whom) -> None:
        """A request is on its way."""
        self.waiting.append((correlation_id, whom))

    def receive(self, view: memoryview, filled: int, answered: Callable[[_Whom, bytes], None]) -> tuple[int, int]:
        """Hands over each whole answer of the first `filled` bytes, without its size.

        Returns how many bytes that was, and the size of the answer behind them if that has yet to come. Raises
        Malformed for an answer that nobody waits for.
        """
        pos = need = 0
        while filled - pos >= 4:
            (size,) = SIZE.unpack_from(view, pos)
            if not _LEAST_ANSWER_BYTES <= size <= MOST_ANSWER_BYTES or not self.waiting:
                raise Malformed(f"announced an answer of {size} bytes, {len(self.waiting)} answers are due")
            end = pos + 4 + size
            if end > filled:
                need = size
                break
            frame = bytes(view[pos + 4 : end])
            answered(self.take(frame), frame)
            pos = end
        return pos, need

    def take(self, frame: bytes | memoryview) -> _Whom:
        """For whom a whole answer is; raises Malformed if another one is due."""
        correlation_id, whom = self.waiting[0]
        if _CORRELATION_ID.unpack_from(frame)[0] != correlation_id:
            raise Malformed("answered out of order")
        self.waiting.popleft()
        return whom


def answer_size(head: bytes | memoryview, most: int) -> int:
    """The size that begins an answer, where one alone is due; raises Malformed for one that none has."""
    (size,) = SIZE.unpack(head)
    if not _LEAST_ANSWER_BYTES <= size <= most:
        raise Malformed(f"announced an answer of {size} bytes")
    return int(size)
