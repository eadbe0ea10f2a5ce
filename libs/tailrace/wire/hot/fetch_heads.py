"""Usual Fetch requests, read once and then recognised by their bytes.

What a consumer asks of one partition without a session differs in its correlation id (in the header) and its offset.
All else is looked up as one byte string; the answer, but for the records, is one pack. A request is learned only from
fetch.py's strict reading of it, so what is recognised means what that said. Everything else is read there.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from tailrace.wire.hot.fetch import Fetch, PartitionData, decode_fetch, encode_fetch_answer
from tailrace.wire.pieces import Piece
from tailrace.wire.varint import unsigned

_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13  # KIP-516
_REPLICA_STATE_FROM: Final = 15  # KIP-903: no replica id in front
_NO_SESSION: Final = memoryview(b"\x00\x00\x00\x00\xff\xff\xff\xff")
_ONE: Final = 2  # an array's length is written plus one
_OFFSET: Final = Struct(">q")
_OTHER_OFFSET: Final = 0x0123_4567_89AB_CDEF
_TOPICS_AT: Final = 25  # behind the session
_TOPICS_AT_V15: Final = 21
_ID_BYTES: Final = 16
_SHORTEST: Final = 64
_LONGEST: Final = 256
_MAX_HEADS: Final = 4096
_TAIL: Final = b"\x00\x00\x00"  # no tags of partition, topic, answer
_LONGEST_TOPIC: Final = 126


class FetchHead:
    """All that a request says but the offset. `place` is the reader's own: what it has found under key and index."""

    __slots__ = (
        "_pack",
        "_size",
        "_topic",
        "_version",
        "by_id",
        "committed",
        "index",
        "key",
        "last_epoch",
        "leader_epoch",
        "max_bytes",
        "min_bytes",
        "place",
        "rack_id",
    )

    def __init__(self, version: int, request: Fetch) -> None:
        """Of a request for one partition."""
        ((self.key, (want,)),) = request.topics
        self.by_id = version >= _TOPIC_IDS_FROM
        self.index = want.partition
        self.leader_epoch = want.current_leader_epoch
        self.last_epoch = want.last_fetched_epoch
        self.max_bytes = min(want.max_bytes, request.max_bytes)
        self.min_bytes = max(1, request.min_bytes)
        self.committed = request.isolation_level == 1
        self.rack_id = request.rack_id
        self.place: Any = None
        self._version = version
        self._topic = topic = self.key if self.by_id else unsigned(len(self.key) + 1) + self.key
        answer = Struct(f">iiBihiB{len(topic)}sBihqqqBi")
        self._size = answer.size - 4 + len(_TAIL)
        self._pack = answer.pack

    def answer(self, correlation_id: int, high_watermark: int, log_start_offset: int, records: Piece) -> list[Piece]:
        """The response frame's buffers; there are records, and no transaction is open or was aborted."""
        length = len(records)
        written = unsigned(length + 1)
        head = self._pack(
            self._size + len(written) + length, correlation_id, 0, 0, 0, 0, _ONE, self._topic, _ONE, self.index, 0,
            high_watermark, high_watermark, log_start_offset, self.committed, -1,
        )  # fmt: skip
        return [head + written, records, _TAIL]


class ClassicFetchHead(FetchHead):
    """Of a version before flexible ones: rare, so its answer is written as any other."""

    __slots__ = ()

    def answer(self, correlation_id: int, high_watermark: int, log_start_offset: int, records: Piece) -> list[Piece]:
        """As FetchHead.answer."""
        row = PartitionData(
            self.index, 0, high_watermark, high_watermark, log_start_offset, records, None, self.committed
        )
        return encode_fetch_answer(self._version, correlation_id, 0, 0, [(self.key, [row])])


def head_of(version: int, request: Fetch) -> FetchHead:
    """Of a request for one partition."""
    return (FetchHead if version >= _FLEXIBLE_FROM else ClassicFetchHead)(version, request)


class FetchHeads:
    """Those seen so far, of every connection; forgotten together when there are too many."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], FetchHead] = {}

    def read(self, version: int, body: memoryview) -> tuple[FetchHead, int] | None:
        """The head and the offset of a usual request that was learned; None for any other, also for a malformed one."""
        if version < _FLEXIBLE_FROM or not _SHORTEST <= len(body) <= _LONGEST:
            return None
        at = _behind_topic(version, body) + 9  # nothing else is looked at: what was learned has it there
        head = self._known.get((version, body[:at].tobytes() + body[at + 8 :].tobytes()))
        return None if head is None else (head, _OFFSET.unpack_from(body, at)[0])

    def learn(self, version: int, body: memoryview, request: Fetch) -> FetchHead:
        """The head of a request for one partition without a session, which is recognised from now on if it is usual."""
        head, at = head_of(version, request), _offset_at(version, body)
        if at:
            before, behind = body[:at].tobytes(), body[at + 8 :].tobytes()
            other = decode_fetch(version, memoryview(before + _OFFSET.pack(_OTHER_OFFSET) + behind))
            want = request.topics[0][1][0]
            if other.topics[0][1][0] == want._replace(fetch_offset=_OTHER_OFFSET):
                if len(self._known) >= _MAX_HEADS:
                    self._known.clear()
                self._known[version, before + behind] = head
        return head


def _offset_at(version: int, body: memoryview) -> int:
    """Where the offset is in a request for one partition without a session; 0 if it is none."""
    if version < _FLEXIBLE_FROM or len(body) > _LONGEST:
        return 0
    at = _TOPICS_AT if version < _REPLICA_STATE_FROM else _TOPICS_AT_V15
    if body[at - 8 : at] != _NO_SESSION or len(body) < at + 40 or body[at] != _ONE:
        return 0
    if version < _TOPIC_IDS_FROM and not 2 <= body[at + 1] <= _LONGEST_TOPIC:
        return 0
    end = _behind_topic(version, body)
    return end + 9 if end + 17 < len(body) and body[end] == _ONE else 0


def _behind_topic(version: int, body: memoryview) -> int:
    """Where the partitions begin, if there is no session."""
    if version >= _TOPIC_IDS_FROM:
        return (_TOPICS_AT_V15 if version >= _REPLICA_STATE_FROM else _TOPICS_AT) + 1 + _ID_BYTES
    return _TOPICS_AT + 1 + body[_TOPICS_AT + 1]
