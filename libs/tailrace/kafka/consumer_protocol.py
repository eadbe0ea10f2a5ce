"""The consumers' own bytes in JoinGroup and SyncGroup: ConsumerProtocolSubscription and -Assignment, versions 0 to 3.

Version 0 is a prefix of every later version, which most readers are content with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from struct import Struct, error
from typing import Final, NamedTuple

PROTOCOL_TYPE: Final = "consumer"
MOST_PARTITIONS: Final = 20_000  # of a subscription or an assignment, and topics as many

_I16 = Struct(">h")
_I32 = Struct(">i")
_VERSION: Final = _I16.pack(0)
_NO_USER_DATA: Final = _I32.pack(-1)
_LATEST_VERSION: Final = 3
_OWNED_FROM: Final = 1
_GENERATION_FROM: Final = 2
_RACK_FROM: Final = 3


class ConsumerProtocolSubscription(NamedTuple):
    """What a member says of itself; version: of what it is answered with, the latest one where it knows a later one."""

    version: int
    topics: tuple[str, ...]
    owned: Mapping[str, frozenset[int]]
    rack_id: str | None


class ConsumerProtocolAssignment(NamedTuple):
    """What a member was given; has_user_data: whether its assignor keeps more than partitions in it."""

    partitions: Mapping[str, frozenset[int]]
    has_user_data: bool


def read_subscription(raw: bytes) -> ConsumerProtocolSubscription | None:
    """Returns the subscription, None for other bytes and for more than MOST_PARTITIONS topics or owned partitions."""
    reader = _Reader(raw)
    try:
        version = min(reader.version(), _LATEST_VERSION)
        topics = tuple(reader.string() for _ in range(reader.count()))
        reader.user_data()
        owned = reader.partitions() if version >= _OWNED_FROM else {}
        if version >= _GENERATION_FROM:
            reader.int32()
        return ConsumerProtocolSubscription(
            version, topics, owned, reader.nullable_string() if version >= _RACK_FROM else None
        )
    except (error, UnicodeDecodeError):
        return None


def read_assignment(raw: bytes) -> ConsumerProtocolAssignment | None:
    """Returns the assignment, without partitions where there are no bytes; None as read_subscription does."""
    if not raw:
        return ConsumerProtocolAssignment({}, has_user_data=False)
    reader = _Reader(raw)
    try:
        reader.version()
        return ConsumerProtocolAssignment(reader.partitions(), has_user_data=bool(reader.user_data()))
    except (error, UnicodeDecodeError):
        return None


class _Reader:
    """Raises struct.error where bytes are missing, and for numbers that none of this has."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._left = MOST_PARTITIONS

    def version(self) -> int:
        version = self._int16()
        if version < 0:
            raise error("a negative version")
        return version

    def count(self) -> int:
        count = self.int32()
        if not 0 <= count <= self._left:
            raise error("too many")
        return count

    def int32(self) -> int:
        number: int = _I32.unpack_from(self._data, self._at)[0]
        self._at += _I32.size
        return number

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise error("a null name")
        return text

    def nullable_string(self) -> str | None:
        size = self._int16()
        return None if size < 0 else self._take(size).decode()

    def user_data(self) -> bytes:
        return self._take(max(self.int32(), 0))

    def partitions(self) -> dict[str, frozenset[int]]:
        found: dict[str, frozenset[int]] = {}
        for _ in range(self.count()):
            topic, count = self.string(), self.count()
            self._left -= count
            found[topic] = found.get(topic, frozenset()) | {self.int32() for _ in range(count)}
        return found

    def _int16(self) -> int:
        number: int = _I16.unpack_from(self._data, self._at)[0]
        self._at += _I16.size
        return number

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise error("bytes are missing")
        self._at += size
        return taken


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


def encode_assignment(partitions: Iterable[tuple[str, int]], version: int = 0) -> bytes:
    """What a member is given in SyncGroup, of (topic, partition) pairs. Versions differ in their number alone."""
    rows: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        rows[topic].append(partition)
    encoded = (_string(topic) + _I32.pack(len(row)) + b"".join(map(_I32.pack, row)) for topic, row in rows.items())
    return _I16.pack(version) + _I32.pack(len(rows)) + b"".join(encoded) + _NO_USER_DATA


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
