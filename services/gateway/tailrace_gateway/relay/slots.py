"""The order of answers on one connection: a queue of what is owed to the client, oldest first.

A request that went to the node leaves a mark; its answer is relayed as it arrives. Any other request leaves a
LateAnswer that somebody fills. Marks of the usual kinds are plain ints (kind and correlation id), because one is made
per request.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias, final

PASS = 0
FETCH = 1 << 32  # response header v0: throttle_time_ms follows the correlation id
FETCH_FLEXIBLE = 2 << 32  # response header v1: one empty tag section between
CORRELATION_MASK = 0xFFFFFFFF


@final
class Throttled:
    """The mark of a Produce request over quota: its answer must carry throttle_time_ms (KIP-219)."""

    __slots__ = ("correlation_id", "throttle_time_ms", "version")

    def __init__(self, version: int, correlation_id: int, throttle_time_ms: int) -> None:
        self.version = version
        self.correlation_id = correlation_id
        self.throttle_time_ms = throttle_time_ms


@final
class LateAnswer:
    """An answer that is not the node's; `answer` is the whole response frame once it is known."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self.answer: bytes | memoryview | None = None


Slot: TypeAlias = "int | Throttled | LateAnswer"


class Slots(deque[Slot]):
    """What is owed; the relay appends at the right, answers leave from the left."""

    kept_bytes = 0  # of answers that wait behind the node's

    def fill(self, slot: LateAnswer, answer: bytes | memoryview) -> None:
        """The answer is known; it leaves once nothing is before it."""
        slot.answer = answer
        self.kept_bytes += len(answer)

    def release(self) -> list[bytes | memoryview]:
        """Takes the answers that are ready and have nothing before them."""
        ready: list[bytes | memoryview] = []
        while self:
            first = self[0]
            if type(first) is not LateAnswer or first.answer is None:
                break
            self.popleft()
            self.kept_bytes -= len(first.answer)
            ready.append(first.answer)
        return ready

    def marks(self) -> int:
        """How many answers the node still owes."""
        return sum(type(slot) is not LateAnswer for slot in self)
