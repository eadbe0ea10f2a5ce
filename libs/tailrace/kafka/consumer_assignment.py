"""The partitions of a classic group's member: ConsumerProtocolAssignment, the clients' own format in SyncGroup."""

from __future__ import annotations

from struct import Struct, error

_I16 = Struct(">h")
_I32 = Struct(">i")


def partitions_of(assignment: bytes) -> list[tuple[str, int]]:
    """The (topic, partition) pairs; empty for a group that isn't of consumers or bytes that aren't this format."""
    try:
        return _read(assignment)
    except (error, UnicodeDecodeError):
        return []


def _read(data: bytes) -> list[tuple[str, int]]:
    pairs: list[tuple[str, int]] = []
    position = _I16.size  # the version; every version begins like 0
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
