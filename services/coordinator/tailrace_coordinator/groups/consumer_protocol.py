"""The one thing the coordinator reads in the clients' own bytes: the topics of a consumer subscription (version 0 is a
prefix of every later version)."""

from __future__ import annotations

import struct

PROTOCOL_TYPE = "consumer"

_MOST_TOPICS = 10_000  # as one request may have

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def read_topics(subscription: bytes, topics: set[str]) -> bool:
    """Adds the topics of an embedded ConsumerProtocolSubscription. False for other bytes, and for too many topics."""
    try:
        count = _INT32.unpack_from(subscription, 2)[0]
        at = 6
        if not 0 <= count <= _MOST_TOPICS:
            return False
        for _ in range(count):
            size = _INT16.unpack_from(subscription, at)[0]
            at += 2
            if size < 0 or at + size > len(subscription):
                return False
            topics.add(subscription[at : at + size].decode())
            at += size
    except (struct.error, UnicodeDecodeError):
        return False
    return True
