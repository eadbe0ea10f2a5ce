"""A follower's side of Fetch v17, by hand: the request it sends and the answer it reads, records left as views.

Every follower spends its life with these two; through the schema they cost more than the append. The schema-driven
codec is the oracle in tests/protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct, error
from typing import NamedTuple

from tailrace.wire.header import end_of_tags, read_tags
from tailrace.wire.hot.fetch import FetchPartition
from tailrace.wire.malformed import Malformed
from tailrace.wire.varint import read_unsigned, unsigned

VERSION = 17
_FETCH = 1
_HEADER = Struct(">hhih")
_FIELDS = Struct(">iiiBii")  # max wait, min bytes, max bytes, isolation level, session id, session epoch
_PARTITION = Struct(">iiqiqiB")
_REPLICA_STATE = Struct(">BBBiqB")
_SIZE = Struct(">i")
_I32 = Struct(">i")
_ANSWER = Struct(">iBihi")  # correlation id, no tags, throttle, error code, session id
_ROW = Struct(">ihqqq")
_DIVERGING_TAG, _LEADER_TAG = 0, 1
_DIVERGING = Struct(">iq")
_LEADER = Struct(">ii")


class ReplicaFetch(NamedTuple):
    """What a follower asks; topics and forgotten by the 16 bytes of a topic id."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    session_id: int
    session_epoch: int
    topics: Sequence[tuple[bytes, Sequence[FetchPartition]]]
    forgotten: Sequence[tuple[bytes, Sequence[int]]]


class ReplicaRow(NamedTuple):
    """One partition of the answer; diverging is (epoch, end offset), leader (id, epoch), records a view or empty."""

    topic_id: bytes
    partition: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    records: memoryview | bytes
    diverging: tuple[int, int] | None
    leader: tuple[int, int] | None


class ReplicaAnswer(NamedTuple):
    """A decoded answer; throttle_time_ms is not used between brokers."""

    error_code: int
    session_id: int
    rows: list[ReplicaRow]


def encode_replica_fetch(fetch: ReplicaFetch, correlation_id: int, client_id: bytes) -> bytes:
    """The whole frame, with its size."""
    out = bytearray(4)
    out += _HEADER.pack(_FETCH, VERSION, correlation_id, len(client_id)) + client_id + b"\x00"
    out += _FIELDS.pack(fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes, 0, fetch.session_id, fetch.session_epoch)
    out += unsigned(len(fetch.topics) + 1)
    for topic_id, rows in fetch.topics:
        out += topic_id + unsigned(len(rows) + 1)
        for row in rows:
            out += _PARTITION.pack(*row, 0)
        out += b"\x00"
    out += unsigned(len(fetch.forgotten) + 1)
    for topic_id, gone in fetch.forgotten:
        out += topic_id + unsigned(len(gone) + 1) + b"".join(map(_I32.pack, gone)) + b"\x00"
    out += b"\x01"  # no rack
    out += _REPLICA_STATE.pack(1, 1, 13, fetch.replica_id, fetch.replica_epoch, 0)
    _SIZE.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def decode_replica_answer(frame: bytes | bytearray | memoryview) -> ReplicaAnswer:
    """Reads an answer's frame (without its size). Raises Malformed on anything that is not exactly one."""
    view = memoryview(frame)
    try:
        _, _, _, error_code, session_id = _ANSWER.unpack_from(view)
        rows: list[ReplicaRow] = []
        topics, pos = read_unsigned(view, _ANSWER.size)
        for _ in _counted(topics, len(view) - pos):
            topic_id = bytes(view[pos : pos + 16])
            count, pos = read_unsigned(view, pos + 16)
            for _ in _counted(count, len(view) - pos):
                row, pos = _row(view, pos, topic_id)
                rows.append(row)
            pos = end_of_tags(view, pos)
        pos = end_of_tags(view, pos)
    except (IndexError, error) as short:
        raise Malformed("a Fetch answer ends in the middle of a field") from short
    if pos != len(view):
        raise Malformed(f"a Fetch answer has {len(view)} bytes, its fields {pos}")
    return ReplicaAnswer(error_code, session_id, rows)


def _counted(compact: int, left: int) -> Iterable[int]:
    if not 0 <= compact - 1 <= left:
        raise Malformed(f"a Fetch answer has a count of {compact - 1}, {left} bytes are left")
    return range(compact - 1)


def _row(view: memoryview, pos: int, topic_id: bytes) -> tuple[ReplicaRow, int]:
    index, code, mark, _, start = _ROW.unpack_from(view, pos)
    aborted, pos = read_unsigned(view, pos + _ROW.size)
    for _ in range(max(0, aborted - 1)):
        pos = end_of_tags(view, pos + 16)
    length, pos = read_unsigned(view, pos + 4)  # over the preferred read replica
    end = pos + max(0, length - 1)
    if end > len(view):
        raise Malformed(f"a Fetch answer has records of {length - 1} bytes, {len(view) - pos} are left")
    records = view[pos:end]
    if not view[end]:
        return ReplicaRow(topic_id, index, code, mark, start, records, None, None), end + 1
    tags, pos = read_tags(view, end)
    diverging = _DIVERGING.unpack_from(tags[_DIVERGING_TAG]) if _DIVERGING_TAG in tags else None
    leader = _LEADER.unpack_from(tags[_LEADER_TAG]) if _LEADER_TAG in tags else None
    return ReplicaRow(topic_id, index, code, mark, start, records, diverging, leader), pos
