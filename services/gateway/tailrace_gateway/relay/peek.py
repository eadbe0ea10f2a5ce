"""The few fields the gateway looks into, read where they lie; positions count from the start of the view.

A view that ends before the field raises IndexError or struct.error: the caller waits for more bytes.
"""

from __future__ import annotations

from struct import Struct

from tailrace.wire.header import end_of_tags
from tailrace.wire.hot.fetch_quota import max_bytes_at
from tailrace.wire.varint import read_unsigned

_INT16 = Struct(">h")


def skip_string(view: memoryview, at: int, flexible: bool) -> tuple[bool, int]:
    """Whether a (compact) nullable string is there at all, and the position after it."""
    if flexible:
        size, at = read_unsigned(view, at)
        return size > 0, at + max(size - 1, 0)
    (size,) = _INT16.unpack_from(view, at)
    return size >= 0, at + 2 + max(size, 0)


def string(view: memoryview, at: int, flexible: bool) -> str:
    """A (compact) string; ValueError if it is not UTF-8."""
    if flexible:
        size, at = read_unsigned(view, at)
        size -= 1
    else:
        (size,) = _INT16.unpack_from(view, at)
        at += 2
    if size > len(view) - at:
        raise IndexError
    return str(view[at : at + max(size, 0)], "utf-8")


def produce_acks(view: memoryview, body: int, flexible: bool) -> tuple[int, int]:
    """Produce v3+: acks and the position after it; `body` is where the header's client id ends."""
    if flexible and view[body] == 0 and view[body + 1] == 0:  # no tags, no transactional id: nearly always
        at = body + 2
    else:
        if flexible:
            body = end_of_tags(view, body)
        _, at = skip_string(view, body, flexible)
    (acks,) = _INT16.unpack_from(view, at)
    return acks, at + 2


def fetch_max_bytes_at(view: memoryview, body: int, version: int, flexible: bool) -> int:
    """Fetch v4+: where max_bytes lies."""
    if flexible:
        body = end_of_tags(view, body)
    at = body + max_bytes_at(version)
    if at + 4 > len(view):
        raise IndexError
    return at


def transactional_id(view: memoryview, body: int, flexible: bool) -> bool:
    """InitProducerId: whether it names a transactional id; an empty one counts as named."""
    if flexible:
        body = end_of_tags(view, body)
    return skip_string(view, body, flexible)[0]


def first_string(view: memoryview, body: int, flexible: bool) -> str:
    """The id that begins the body: of a group (JoinGroup, OffsetCommit, OffsetFetch below v8 …) or a transaction."""
    if flexible:
        body = end_of_tags(view, body)
    return string(view, body, flexible)


def second_string(view: memoryview, body: int, flexible: bool) -> str:
    """The group id of TxnOffsetCommit, behind its transactional id."""
    if flexible:
        body = end_of_tags(view, body)
    _, at = skip_string(view, body, flexible)
    if at > len(view):
        raise IndexError
    return string(view, at, flexible)
