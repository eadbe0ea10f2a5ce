"""The fields of Fetch that a quota sets, where they lie: a request's max_bytes, an answer's throttle_time_ms (KIP-219).

They are written in place, so that who charges a client need not decode what passes.
"""

from __future__ import annotations

from struct import Struct

from tailrace.wire.pieces import Piece

_INT32 = Struct(">i")
_FLEXIBLE_FROM = 12
_REPLICA_TAGGED_FROM = 15  # replica_id became a tagged field (KIP-903)


def max_bytes_at(version: int) -> int:
    """Where max_bytes lies in the body of a request of version 4 or later."""
    return 8 if version >= _REPLICA_TAGGED_FROM else 12


def cap_int32(view: memoryview, at: int, most: int) -> None:
    """Lowers a big-endian int32 to `most` in place; struct.error where the view ends before it."""
    (value,) = _INT32.unpack_from(view, at)
    if value > most:
        _INT32.pack_into(view, at, most)


def throttle_time_at(*, flexible: bool) -> int:
    """Where throttle_time_ms lies in an answer's frame: behind size, correlation id and an empty tag section."""
    return 9 if flexible else 8


def with_throttle(version: int, buffers: list[Piece], throttle_time_ms: int) -> list[Piece]:
    """The buffers of an answer's frame (encode_fetch_answer), with its throttle_time_ms set."""
    at, head = throttle_time_at(flexible=version >= _FLEXIBLE_FROM), bytearray()
    rest = list(buffers)
    while len(head) < at + _INT32.size:
        piece = rest.pop(0)
        assert isinstance(piece, bytes)
        head += piece
    _INT32.pack_into(head, at, throttle_time_ms)
    return [bytes(head), *rest]
