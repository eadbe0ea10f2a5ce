"""What comes before the records in usual Produce requests, read once and then recognised by its bytes.

A producer's requests for one partition differ in their records, their correlation id (in the header) and little else:
no transactional id, the same acks and timeout, one topic, one partition, no tags. Such a head is looked up as one
byte string; its answers, but for the offsets, are one pack. Everything else goes through tailrace.wire.hot.produce.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from tailrace.wire.varint import read_unsigned

_FIXED: Final = Struct(">BhiB")  # no transactional id, acks, timeout, one topic
_FLEXIBLE_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 13  # KIP-516
_TOPIC_AT: Final = _FIXED.size
_ID_BYTES: Final = 16
_SHORTEST: Final = 24
_LONGEST_TOPIC: Final = 127  # the length of a name, plus one, takes one byte
_ONE: Final = 2  # an array's length is written plus one
_MAX_HEADS: Final = 4096
# No record errors, null message, no tags of the row and the topic; no throttle time, no tags.
_ANSWER_TAIL: Final = b"\x01\x00\x00\x00" + b"\x00\x00\x00\x00\x00"


class Head:
    """One producer's way to one partition. `place` is the reader's own: what it has found under key and index."""

    __slots__ = ("_pack", "_size", "_topic", "acks", "by_id", "index", "key", "place", "timeout_ms")

    def __init__(self, acks: int, timeout_ms: int, topic: bytes, by_id: bool, index: int) -> None:
        """topic: as it is on the wire, a topic id, or a name behind its length."""
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.key = topic if by_id else topic[1:]
        self.by_id = by_id
        self.index = index
        self.place: Any = None
        self._topic = topic
        answer = Struct(f">iiBB{len(topic)}sBihqqq{len(_ANSWER_TAIL)}s")
        self._size = answer.size - 4
        self._pack = answer.pack

    def answer(self, correlation_id: int, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> bytes:
        """The response frame of a request whose batch was appended."""
        return self._pack(
            self._size, correlation_id, 0, _ONE, self._topic, _ONE, self.index, 0,
            base_offset, log_append_time_ms, log_start_offset, _ANSWER_TAIL,
        )  # fmt: skip


class Heads:
    """Those seen so far, of every connection; forgotten together when there are too many."""

    def __init__(self) -> None:
        self._by_name: dict[bytes, Head] = {}
        self._by_id: dict[bytes, Head] = {}

    def read(self, version: int, body: memoryview) -> tuple[Head, memoryview] | None:
        """The head and the records of a usual request; None for any other, also for one that is malformed."""
        end = len(body)
        if version < _FLEXIBLE_FROM or end < _SHORTEST:
            return None
        by_id = version >= _TOPIC_IDS_FROM
        at = (_TOPIC_AT + _ID_BYTES if by_id else _TOPIC_AT + body[_TOPIC_AT]) + 5
        if at + 5 > end:
            return None
        known = self._by_id if by_id else self._by_name
        written = body[:at].tobytes()
        head = known.get(written)
        if head is None:
            head = _usual(by_id, written)
            if head is None:
                return None
            if len(known) >= _MAX_HEADS:
                known.clear()
            known[written] = head
        length, pos = read_unsigned(body, at)
        tail = pos + length - 1
        if not length or end - tail != 3 or body[tail] or body[tail + 1] or body[tail + 2]:
            return None
        return head, body[pos:tail]


def _usual(by_id: bool, head: bytes) -> Head | None:
    """Reads a head that ends behind the partition's index, in front of the length of its records."""
    transactional, acks, timeout_ms, topics = _FIXED.unpack_from(head)
    stop = len(head) - 5
    if transactional or topics != _ONE or head[stop] != _ONE or not 1 < stop - _TOPIC_AT <= _LONGEST_TOPIC:
        return None
    index = int.from_bytes(head[stop + 1 :], "big", signed=True)
    return Head(acks, timeout_ms, head[_TOPIC_AT:stop], by_id, index)
