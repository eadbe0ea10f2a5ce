"""Fetch on the hot path, by hand. Versions 4-18.

v5 log start offset, v7 sessions (KIP-227), v9 leader epochs (KIP-320), v11 rack (KIP-392), v12 flexible and
last_fetched_epoch (KIP-595), v13 topic ids (KIP-516), v15 replica state as a tag, v16 node endpoints (KIP-951).
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import NamedTuple

from tailrace.wire.apis import ApiKey
from tailrace.wire.header import read_tags
from tailrace.wire.limits import MOST_STRING_BYTES, ceiling
from tailrace.wire.malformed import Malformed
from tailrace.wire.pieces import Piece
from tailrace.wire.varint import read_unsigned, unsigned

_I16 = Struct(">h")
_I32 = Struct(">i")
_HEAD = Struct(">ii")
_THREE = Struct(">iii")
_SESSION = Struct(">ii")
_PARTITIONS = {
    4: Struct(">iqi"),
    5: Struct(">iqqi"),
    9: Struct(">iiqqi"),
    12: Struct(">iiqiqi"),
}
_PARTITION_V12 = _PARTITIONS[12]
_ANSWER_HEAD = Struct(">ihi")
_LEADER = Struct(">ii")
_REPLICA_STATE_TAG = 1
_FREED_AT_ONCE = 500
_TOPICS, _PARTITIONS_OF, _FORGOTTEN, _FORGOTTEN_OF = range(4)
_MOST = [
    ceiling(ApiKey.FETCH, path).most
    for path in ("topics", "topics.partitions", "forgotten_topics_data", "forgotten_topics_data.partitions")
]
_REPLICA = Struct(">iq")
_REPLICA_STATE = Struct(">BBBiqB")  # one tag, its number, its size, replica id, replica epoch, no tags inside
_DIVERGING = Struct(">iqB")


class FetchPartition(NamedTuple):
    """What is asked of one partition."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class Fetch(NamedTuple):
    """A decoded request; topics and forgotten are keyed by name (v4-12) or id (v13), as bytes.

    replica_id is -1 for consumers; replica_epoch is the broker epoch a follower comes with (v15, KIP-903).
    """

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[bytes, list[FetchPartition]]]
    forgotten: list[tuple[bytes, list[int]]]
    rack_id: str
    replica_epoch: int = -1


class _Reader:
    """A position in a body; every read checks its bounds (an IndexError or struct.error ends the decode)."""

    __slots__ = ("body", "flexible", "forgotten", "left", "pos", "topics", "version")

    def __init__(self, version: int, body: memoryview) -> None:
        self.version, self.body, self.pos = version, body, 0
        self.left = list(_MOST)  # rows that may still come of each list
        self.flexible = version >= 12
        self.topics: list[tuple[bytes, list[FetchPartition]]] = []
        self.forgotten: list[tuple[bytes, list[int]]] = []

    def free(self) -> None:
        """Frees what was read."""
        free_rows(self.topics)
        free_rows(self.forgotten)

    def count(self, which: int) -> int:
        if self.flexible:
            value, self.pos = read_unsigned(self.body, self.pos)
            value -= 1
        else:
            (value,) = _I32.unpack_from(self.body, self.pos)
            self.pos += 4
        left = len(self.body) - self.pos
        if not 0 <= value <= left:
            raise Malformed(f"Fetch has a count of {value}, {left} bytes are left")
        self.left[which] -= value
        if self.left[which] < 0:
            raise Malformed("Fetch has more topics or partitions than a request may have (docs/limits.md)")
        return value

    def raw(self, size: int) -> bytes:
        if size < 0 or self.pos + size > len(self.body):
            raise Malformed(f"Fetch has a length of {size}, {len(self.body) - self.pos} bytes are left")
        self.pos += size
        return bytes(self.body[self.pos - size : self.pos])

    def string(self) -> bytes:
        if self.flexible:
            size, self.pos = read_unsigned(self.body, self.pos)
            if size > MOST_STRING_BYTES + 1:
                raise Malformed(f"Fetch has a string of {size - 1} bytes")
            return self.raw(size - 1)
        (size,) = _I16.unpack_from(self.body, self.pos)
        self.pos += 2
        return self.raw(size)

    def topic(self) -> bytes:
        return self.raw(16) if self.version >= 13 else self.string()

    def tags(self) -> dict[int, memoryview]:
        if not self.flexible:
            return {}
        found, self.pos = read_tags(self.body, self.pos)
        return found


_FLEXIBLE_HEAD = Struct(">iiiBii")
_FLEXIBLE_HEAD_V12 = Struct(">iiiiBii")


def free_rows(topics: list[tuple[bytes, list[FetchPartition]]] | list[tuple[bytes, list[int]]]) -> None:
    """Empties the rows of a request, some at a time: the end of very many in one step takes long."""
    while topics:
        _, rows = topics.pop()
        while rows:
            del rows[-_FREED_AT_ONCE:]


def fetch_once(request: Fetch) -> Fetch:
    """The request with each partition once, and the last row that names it, as in Kafka; it takes the given one's."""
    once: dict[bytes, dict[int, FetchPartition]] = {}
    given, found = request.topics[::-1], list[tuple[bytes, list[FetchPartition]]]()
    request.topics.clear()
    while given:  # nothing here ends in one step, which takes long for very many rows
        key, rows = given.pop()
        last = once.setdefault(key, {})
        for row in rows:
            last[row.partition] = row
    while once:
        key, last = once.popitem()
        found.append((key, list(last.values())))
    found.reverse()
    return request._replace(topics=found)


def decode_fetch(version: int, body: memoryview) -> Fetch:
    """Raises Malformed on anything that is not exactly one Fetch body of this version."""
    if version >= 12:
        try:
            common = decode_common_fetch(version, body)
        except (IndexError, error):
            common = None  # the plain way says what is wrong
        if common is not None:
            return common
    return decode_plain_fetch(version, body)


def decode_plain_fetch(version: int, body: memoryview) -> Fetch:
    """As decode_fetch, for every Fetch there is."""
    reader = _Reader(version, body)
    try:
        return _whole(reader)
    except Malformed:
        reader.free()
        raise


def _whole(reader: _Reader) -> Fetch:
    try:
        fetch = _fetch(reader)
    except (IndexError, error) as short:
        raise Malformed("Fetch ends in the middle of a field") from short
    if reader.pos != len(reader.body):
        raise Malformed(f"Fetch has {len(reader.body)} bytes, its fields {reader.pos}")
    return fetch


def decode_common_fetch(version: int, body: memoryview) -> Fetch | None:
    """What consumers send: one topic or none, few partitions, nothing forgotten, no tags. None for anything else.

    For versions from 12 on. Raises IndexError or struct.error where the body ends too early.
    """
    if version <= 14:
        replica_id, max_wait_ms, min_bytes, max_bytes, level, session_id, epoch = _FLEXIBLE_HEAD_V12.unpack_from(body)
        pos = 25
    else:
        max_wait_ms, min_bytes, max_bytes, level, session_id, epoch = _FLEXIBLE_HEAD.unpack_from(body)
        replica_id, pos = -1, 21
    topics = []
    count = body[pos]
    pos += 1
    if count > 2 or not count:
        return None
    if count == 2:
        end = pos + 16 if version >= 13 else pos + body[pos]
        key = bytes(body[pos:end] if version >= 13 else body[pos + 1 : end])
        partitions = body[end] - 1
        if not 0 <= partitions < 100 or (version < 13 and not 2 <= body[pos] < 128):
            return None
        pos = end + 1
        rows = []
        for _ in range(partitions):
            rows.append(FetchPartition._make(_PARTITION_V12.unpack_from(body, pos)))
            pos += 33
            if body[pos - 1]:
                return None
        if body[pos]:
            return None
        topics.append((key, rows))
        pos += 1
    rack_bytes = body[pos + 1]
    end = pos + 1 + rack_bytes
    if body[pos] != 1 or not 1 <= rack_bytes < 128:
        return None
    rack = str(body[pos + 2 : end], "utf-8", "replace")
    replica_epoch = -1
    if end + _REPLICA_STATE.size == len(body):
        tags, tag, size, replica_id, replica_epoch, no_tags = _REPLICA_STATE.unpack_from(body, end)
        if (tags, tag, size, no_tags) != (1, _REPLICA_STATE_TAG, 13, 0):
            return None
    elif end + 1 != len(body) or body[end]:
        return None
    return Fetch(
        replica_id, max_wait_ms, min_bytes, max_bytes, level, session_id, epoch, topics, [], rack, replica_epoch
    )


def _fetch(reader: _Reader) -> Fetch:
    version, body = reader.version, reader.body
    replica_id, session_id, session_epoch = -1, 0, -1
    if version <= 14:
        (replica_id,) = _I32.unpack_from(body, 0)
        reader.pos = 4
    max_wait_ms, min_bytes, max_bytes = _THREE.unpack_from(body, reader.pos)
    isolation_level = body[reader.pos + 12]
    reader.pos += 13
    if version >= 7:
        session_id, session_epoch = _SESSION.unpack_from(body, reader.pos)
        reader.pos += 8
    for _ in range(reader.count(_TOPICS)):
        _topic(reader)
    if version >= 7:
        for _ in range(reader.count(_FORGOTTEN)):
            key, count = reader.topic(), reader.count(_FORGOTTEN_OF)
            gone: list[int] = []
            reader.forgotten.append((key, gone))
            for _ in range(count):
                (index,) = _I32.unpack_from(body, reader.pos)
                gone.append(index)
                reader.pos += 4
            reader.tags()
    rack = reader.string().decode("utf-8", "replace") if version >= 11 else ""
    tags = reader.tags()
    replica_epoch = -1
    if version >= 15 and len(tags.get(_REPLICA_STATE_TAG, b"")) >= _REPLICA.size:
        replica_id, replica_epoch = _REPLICA.unpack_from(tags[_REPLICA_STATE_TAG])
    return Fetch(
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        reader.topics,
        reader.forgotten,
        rack,
        replica_epoch,
    )


def _topic(reader: _Reader) -> None:
    version, body = reader.version, reader.body
    key, count = reader.topic(), reader.count(_PARTITIONS_OF)
    layout = _PARTITIONS[max(first for first in _PARTITIONS if first <= version)]
    rows: list[FetchPartition] = []
    reader.topics.append((key, rows))
    for _ in range(count):
        fields = layout.unpack_from(body, reader.pos)
        reader.pos += layout.size
        if version >= 12:
            row = FetchPartition._make(fields)
            reader.tags()
        elif version >= 9:
            row = FetchPartition(fields[0], fields[1], fields[2], -1, fields[3], fields[4])
        elif version >= 5:
            row = FetchPartition(fields[0], -1, fields[1], -1, fields[2], fields[3])
        else:
            row = FetchPartition(fields[0], -1, fields[1], -1, -1, fields[2])
        rows.append(row)
    reader.tags()


class PartitionData(NamedTuple):
    """One partition's part of an answer. leader: (leader_id, leader_epoch) hint, v12 and later (KIP-951).

    aborted: a list of aborted transactions (what read_committed and errors get), else null.
    transactions: what is in that list, as (producer id, first offset).
    preferred: the replica a consumer of this rack should read from (KIP-392), v11 and later.
    diverging: (epoch, end offset) up to which a follower's log agrees at most (KIP-595), v12 and later.
    """

    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: Piece | None
    leader: tuple[int, int] | None = None
    aborted: bool = False
    preferred: int = -1
    diverging: tuple[int, int] | None = None
    transactions: Sequence[tuple[int, int]] = ()


_ROW_V4 = Struct(">ihqqi")
_ROW_V5 = Struct(">ihqqqi")
_ROW_V11 = Struct(">ihqqqii")
_ROW_V12 = Struct(">ihqqqBi")
_ABORTED = Struct(">qq")
_USUAL_HEAD = Struct(">iiBihiB")  # size, correlation id, no tags, no throttle, no error, session, one topic
_USUAL_TAIL = b"\x00\x00\x00"  # no tags of partition, topic, answer
_USUAL_BYTES = _USUAL_HEAD.size - 4 + 1 + len(_USUAL_TAIL)


def encode_fetch_answer(
    version: int,
    correlation_id: int,
    session_id: int,
    error_code: int,
    topics: list[tuple[bytes, list[PartitionData]]],
    endpoints: bytes = b"\x00",
) -> list[Piece]:
    """The response frame as a list of buffers; records are passed through, not copied.

    endpoints is the tag section that ends the body (v16 node endpoints), built by node_endpoints.
    """
    flexible = version >= 12
    if flexible and len(topics) == 1 and len(topics[0][1]) == 1 and endpoints == b"\x00" and not error_code:
        key, (row,) = topics[0]
        if row.records and row.leader is None and row.diverging is None and not row.transactions:
            return _usual_answer(version, correlation_id, session_id, key, row, row.records)
    head = bytearray(b"\x00") if flexible else bytearray()
    head += _ANSWER_HEAD.pack(0, error_code, session_id) if version >= 7 else _I32.pack(0)
    head += unsigned(len(topics) + 1) if flexible else _I32.pack(len(topics))
    parts: list[Piece] = [b""]
    size = 0
    for key, rows in topics:
        if flexible:
            head += key if version >= 13 else unsigned(len(key) + 1) + key
            head += unsigned(len(rows) + 1)
        else:
            head += _I16.pack(len(key)) + key + _I32.pack(len(rows))
        for row in rows:
            head += _row_head(version, row)
            if row.records:
                size += len(head) + len(row.records)
                parts.append(bytes(head))
                parts.append(row.records)
                head.clear()
            if flexible:
                head += _row_tags(row)
        if flexible:
            head += b"\x00"
    if flexible:
        head += endpoints
    parts.append(bytes(head))
    size += len(head)
    parts[0] = _HEAD.pack(size + 4, correlation_id)
    return parts


def _usual_answer(
    version: int, correlation_id: int, session_id: int, key: bytes, row: PartitionData, records: Piece
) -> list[Piece]:
    """Records of one partition, written in one go (v12 and later)."""
    length = len(records)
    topic = key if version >= 13 else unsigned(len(key) + 1) + key
    fields = _ROW_V12.pack(row[0], row[1], row[2], row[3], row[4], row.aborted, row.preferred) + unsigned(length + 1)
    size = _USUAL_BYTES + len(topic) + len(fields) + length
    head = _USUAL_HEAD.pack(size, correlation_id, 0, 0, 0, session_id, 2)
    return [b"".join((head, topic, b"\x02", fields)), records, _USUAL_TAIL]


def _row_head(version: int, row: PartitionData) -> bytes:
    """Everything before the records, their length included."""
    length = len(row.records) if row.records else 0
    index, code, high_watermark, stable, start = row[:5]
    if row.transactions:
        return _row_head_with_aborted(version, row, length)
    if version >= 12:
        return _ROW_V12.pack(index, code, high_watermark, stable, start, row.aborted, row.preferred) + unsigned(
            length + 1
        )
    if version >= 11:
        return _ROW_V11.pack(index, code, high_watermark, stable, start, row.aborted - 1, row.preferred) + _I32.pack(
            length
        )
    if version >= 5:
        return _ROW_V5.pack(index, code, high_watermark, stable, start, row.aborted - 1) + _I32.pack(length)
    return _ROW_V4.pack(index, code, high_watermark, stable, row.aborted - 1) + _I32.pack(length)


def _row_head_with_aborted(version: int, row: PartitionData, length: int) -> bytes:
    """As _row_head, with the aborted transactions written out."""
    flexible, aborted = version >= 12, row.transactions
    marks = row[:5] if version >= 5 else row[:4]
    head = bytearray(Struct(">ihqqq" if version >= 5 else ">ihqq").pack(*marks))
    head += unsigned(len(aborted) + 1) if flexible else _I32.pack(len(aborted))
    for producer_id, first_offset in aborted:
        head += _ABORTED.pack(producer_id, first_offset)
        if flexible:
            head += b"\x00"
    if version >= 11:
        head += _I32.pack(row.preferred)
    return bytes(head) + (unsigned(length + 1) if flexible else _I32.pack(length))


def _row_tags(row: PartitionData) -> bytes:
    tags = []
    if row.diverging is not None:
        tags.append(b"\x00\x0d" + _DIVERGING.pack(*row.diverging, 0))
    if row.leader is not None:
        tags.append(b"\x01\x09" + _LEADER.pack(*row.leader) + b"\x00")
    return bytes([len(tags)]) + b"".join(tags) if tags else b"\x00"


def node_endpoints(nodes: list[tuple[int, str, int]]) -> bytes:
    """The body's tag section with node endpoints (tag 0): (node id, host, port) of the leaders hinted at."""
    if not nodes:
        return b"\x00"
    inner = bytearray(unsigned(len(nodes) + 1))
    for node_id, host, port in nodes:
        name = host.encode()
        inner += _I32.pack(node_id) + unsigned(len(name) + 1) + name + _I32.pack(port) + b"\x00\x00"
    return b"\x01\x00" + unsigned(len(inner)) + bytes(inner)
