"""The one thing the coordinator reads in the clients' own bytes: the topics of a consumer subscription (version 0 is a
prefix of every later version)."""

from __future__ import annotations

import struct

from tailrace.steps import Steps

PROTOCOL_TYPE = "consumer"

_TOPICS_A_STEP = 2_000

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def read_topics(subscription: bytes, topics: set[str]) -> Steps[bool]:
    """Adds the topics of an embedded ConsumerProtocolSubscription. False when the bytes are something else."""
    try:
        count = _INT32.unpack_from(subscription, 2)[0]
        at = 6
        if not 0 <= count <= len(subscription):
            return False
        for number in range(1, count + 1):
            size = _INT16.unpack_from(subscription, at)[0]
            at += 2
            if size < 0 or at + size > len(subscription):
                return False
            topics.add(subscription[at : at + size].decode())
            at += size
            if number % _TOPICS_A_STEP == 0:
                yield
    except (struct.error, UnicodeDecodeError):
        return False
    return True
