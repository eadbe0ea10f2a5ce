"""The one kind of thing that waits here: Kafka's DelayedOperation. DelayedProduce, DelayedFetch and OffsetWait are it.

It waits in two places. Where it completes: among the waiters of a key that may have news (Purgatory.park), or in an
OffsetQueue of a partition, where an offset has to be reached. And where it expires: in the purgatory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol


class Flushed(Protocol):
    """A connection whose answers wait in their slots."""

    def flush(self) -> None: ...


class Waiter(Protocol):
    """What is told of the news of a key, until it is done."""

    done: bool

    def try_complete(self, key: Any) -> None: ...


class DelayedOperation(ABC):
    """A request, or an append of our own, until it is done: what it waits for is there, or its time is up."""

    __slots__ = ("connection", "done")

    def __init__(self, connection: Flushed | None = None) -> None:
        self.connection = connection  # what the answer is flushed to; None if somebody else sends it
        self.done = False

    @abstractmethod
    def try_complete(self, key: Any) -> None:
        """A key has news, or the offset is reached for which it stood in line with this key: done, if that is all.

        Where that offset cannot be reached any more, the key of the line has the error code.
        """

    @abstractmethod
    def expire(self) -> None:
        """Its time is up: it is done with what there is."""
