"""The one thing the coordinator reads in the clients' own bytes: the topics of a consumer subscription (version 0 is a
prefix of every later version)."""

from __future__ import annotations

import struct

PROTOCOL_TYPE = "consumer"

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def read_topics(subscription: bytes, most: int) -> tuple[list[str] | None, bytes]:
    """Returns the topics of an embedded ConsumerProtocolSubscription, and the bytes up to their end.

    None for other bytes, and for more topics than that.
    """
    topics = []
    try:
        count = _INT32.unpack_from(subscription, 2)[0]
        at = 6
        if not 0 <= count <= most:
            return None, b""
        for _ in range(count):
            size = _INT16.unpack_from(subscription, at)[0]
            at += 2
            if size < 0 or at + size > len(subscription):
                return None, b""
            topics.append(subscription[at : at + size].decode())
            at += size
    except (struct.error, UnicodeDecodeError):
        return None, b""
    return topics, subscription[:at]
