"""ListOffsets by hand, as consumers send it: a few topics, no unknown tags. Versions 1-11.

Some consumers ask for the ends of a partition before every read (Spark's connector twice for each 500 records), and the
schema-driven codec was most of what that cost. What this one does not know it leaves to that codec. Reports of groups
and the REST API ask where logs end by list_offsets_request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct, error
from typing import NamedTuple, TypeAlias

from tailrace.wire.limits import MOST_STRING_BYTES
from tailrace.wire.malformed import Malformed
from tailrace.wire.messages import ListOffsetsRequest
from tailrace.wire.varint import read_unsigned, unsigned

_I16 = Struct(">h")
_I32 = Struct(">i")
_ASKED = {False: Struct(">iq"), True: Struct(">iiq")}  # with the leader's epoch from v4 on
_FOUND = {False: Struct(">ihqq"), True: Struct(">ihqqi")}
_SIZE_CORRELATION = Struct(">ii")
_COUNT_MAX = 1000
LATEST = -1  # of the timestamps that are none


class WantedOffset(NamedTuple):
    """What is asked of one partition; the epoch is -1 where the version has none."""

    partition: int
    current_leader_epoch: int
    timestamp: int


class FoundOffset(NamedTuple):
    """What is answered for one partition."""

    partition: int
    error_code: int
    timestamp: int
    offset: int
    leader_epoch: int


AskedOffsets: TypeAlias = list[tuple[bytes, list[WantedOffset]]]


def decode_list_offsets(version: int, body: memoryview) -> tuple[int, AskedOffsets] | None:
    """The isolation level and the topics by name.

    None for what is not exactly one plain body of this version: the other codec tells why.
    """
    try:
        asked, pos = _asked(version, body)
        if version >= 10:
            pos += 4  # the client's timeout, for what is in tiered storage
        if version >= 6:
            if body[pos]:
                return None
            pos += 1
    except (IndexError, error, Malformed, UnicodeDecodeError):
        return None
    return (body[4] if version >= 2 else 0, asked) if pos == len(body) else None


def _asked(version: int, body: memoryview) -> tuple[AskedOffsets, int]:
    flexible, row = version >= 6, _ASKED[version >= 4]
    topics, pos = _count(flexible, body, 5 if version >= 2 else 4)  # replica id, isolation level
    asked: AskedOffsets = []
    left = _COUNT_MAX
    for _ in range(topics):
        name, pos = _name(flexible, body, pos)
        rows, pos = _count(flexible, body, pos, left)
        left -= rows
        wanted = []
        for _ in range(rows):
            fields = row.unpack_from(body, pos)
            pos += row.size
            wanted.append(WantedOffset(*fields) if version >= 4 else WantedOffset(fields[0], -1, fields[1]))
            pos = _no_tags(flexible, body, pos)
        pos = _no_tags(flexible, body, pos)
        asked.append((name, wanted))
    return asked, pos


def _count(flexible: bool, body: memoryview, pos: int, most: int = _COUNT_MAX) -> tuple[int, int]:
    if flexible:
        value, pos = read_unsigned(body, pos)
        value -= 1
    else:
        (value,) = _I32.unpack_from(body, pos)
        pos += 4
    if not 0 <= value <= most:
        raise Malformed("null, negative or many")
    return value, pos


def _name(flexible: bool, body: memoryview, pos: int) -> tuple[bytes, int]:
    if flexible:
        size, pos = read_unsigned(body, pos)
        size -= 1
    else:
        (size,) = _I16.unpack_from(body, pos)
        pos += 2
    if not 0 <= size <= MOST_STRING_BYTES or pos + size > len(body):
        raise Malformed("null, cut or too long")
    name = bytes(body[pos : pos + size])
    if not name.isascii():
        name.decode()  # what is no UTF-8 is no name
    return name, pos + size


def _no_tags(flexible: bool, body: memoryview, pos: int) -> int:
    if not flexible:
        return pos
    if body[pos]:
        raise Malformed("tags")
    return pos + 1


def encode_list_offsets_answer(
    version: int, correlation_id: int, topics: list[tuple[bytes, list[FoundOffset]]]
) -> bytes:
    """The response frame with its size; never throttled."""
    rows = [(name, [encode_found(version, one) for one in found]) for name, found in topics]
    body = encode_list_offsets_body(version, rows)
    head = b"\x00" if version >= 6 else b""
    return b"".join((_SIZE_CORRELATION.pack(4 + len(head) + len(body), correlation_id), head, body))


def encode_list_offsets_body(version: int, topics: list[tuple[bytes, list[bytes]]]) -> bytes:
    """The body of a response with these rows, which encode_found made."""
    flexible = version >= 6
    out = bytearray()
    if version >= 2:
        out += b"\x00\x00\x00\x00"
    out += unsigned(len(topics) + 1) if flexible else _I32.pack(len(topics))
    for name, rows in topics:
        out += unsigned(len(name) + 1) + name if flexible else _I16.pack(len(name)) + name
        out += unsigned(len(rows) + 1) if flexible else _I32.pack(len(rows))
        out += b"".join(rows)
        if flexible:
            out += b"\x00"
    if flexible:
        out += b"\x00"
    return bytes(out)


def encode_found(version: int, found: FoundOffset) -> bytes:
    """One partition's row."""
    row = _FOUND[True].pack(*found) if version >= 4 else _FOUND[False].pack(*found[:4])
    return row + b"\x00" if version >= 6 else row


def list_offsets_request(
    topics: Mapping[str, Iterable[int]], timestamp: int = LATEST, *, timeout_ms: int = 0, read_committed: bool = False
) -> ListOffsetsRequest:
    """For offsets of partitions of one leader, by topic; LATEST with read_committed is the last stable offset."""
    topic = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        timeout_ms=timeout_ms,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.ListOffsetsPartition(partition_index=n, current_leader_epoch=-1, timestamp=timestamp)
                    for n in partitions
                ],
            )
            for name, partitions in topics.items()
        ],
    )
