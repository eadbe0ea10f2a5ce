"""The consumers' own bytes in JoinGroup and SyncGroup: ConsumerProtocolSubscription and -Assignment, version 0.

Version 0 is a prefix of every later version; what follows it is not read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from struct import Struct, error
from typing import Final

PROTOCOL_TYPE: Final = "consumer"

_I16 = Struct(">h")
_I32 = Struct(">i")
_VERSION: Final = _I16.pack(0)
_NO_USER_DATA: Final = _I32.pack(-1)


def encode_subscription(topics: Iterable[str]) -> bytes:
    """What a member says in JoinGroup."""
    names = [_string(topic) for topic in topics]
    return _VERSION + _I32.pack(len(names)) + b"".join(names) + _NO_USER_DATA


def read_topics(subscription: bytes, most: int) -> tuple[list[str] | None, bytes]:
    """Returns the topics of an embedded ConsumerProtocolSubscription, and the bytes up to their end.

    None for other bytes, and for more topics than that.
    """
    topics = []
    try:
        count = _I32.unpack_from(subscription, 2)[0]
        at = 6
        if not 0 <= count <= most:
            return None, b""
        for _ in range(count):
            size = _I16.unpack_from(subscription, at)[0]
            at += 2
            if size < 0 or at + size > len(subscription):
                return None, b""
            topics.append(subscription[at : at + size].decode())
            at += size
    except (error, UnicodeDecodeError):
        return None, b""
    return topics, subscription[:at]


def encode_assignment(partitions: Iterable[tuple[str, int]]) -> bytes:
    """What the leading member gives a member in SyncGroup, of (topic, partition) pairs."""
    rows: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        rows[topic].append(partition)
    encoded = (_string(topic) + _I32.pack(len(row)) + b"".join(map(_I32.pack, row)) for topic, row in rows.items())
    return _VERSION + _I32.pack(len(rows)) + b"".join(encoded) + _NO_USER_DATA


def partitions_of(assignment: bytes) -> list[tuple[str, int]]:
    """The (topic, partition) pairs; empty for a group that isn't of consumers or bytes that aren't this format."""
    try:
        return _read(assignment)
    except (error, UnicodeDecodeError):
        return []


def _string(text: str) -> bytes:
    raw = text.encode()
    return _I16.pack(len(raw)) + raw


def _read(data: bytes) -> list[tuple[str, int]]:
    pairs: list[tuple[str, int]] = []
    position = _I16.size
    (topics,) = _I32.unpack_from(data, position)
    position += _I32.size
    for _ in range(topics):
        (length,) = _I16.unpack_from(data, position)
        if length < 0:
            raise error("a negative length")
        position += _I16.size
        topic = data[position : position + length].decode()
        position += length
        (count,) = _I32.unpack_from(data, position)
        position += _I32.size
        for _ in range(count):
            pairs.append((topic, _I32.unpack_from(data, position)[0]))
            position += _I32.size
    return pairs
