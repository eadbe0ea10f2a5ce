"""What waits at one partition for an offset to be reached, in the order of the offsets.

One advance of a high watermark completes all that waits below it, without a look at the rest, and flushes each
connection once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import Final, Protocol

from tailrace.errors import ErrorCode
from tailrace_broker.waiting.operation import DelayedOperation, Flushed

_FEW: Final = 256  # done or not, so many cost nobody anything


class Refusable(Protocol):
    """With what an operation stands in line: one append of a request, for example."""

    error_code: int


_Entry = tuple[int, DelayedOperation, Refusable]
_needed = itemgetter(0)


class OffsetQueue(list[_Entry]):
    """(offset needed, operation, its key); line_up adds, reach and refuse take.

    What ran out of time leaves with those before it, or is swept out: behind one that waits long for an offset that
    does not come there may be any number of them.
    """

    # Every partition has three, nearly all of them empty; an empty deque would take 0.8 KB.
    __slots__ = ("_sweep_at",)

    def __init__(self) -> None:
        super().__init__()
        self._sweep_at = _FEW

    def line_up(self, needed: int, operation: DelayedOperation, key: Refusable) -> None:
        """Lets the operation be completed when the offset is reached."""
        if self and self[-1][0] > needed:  # a batch that was sent again, for example
            self.insert(bisect_right(self, needed, key=_needed), (needed, operation, key))
        else:
            self.append((needed, operation, key))
        if len(self) >= self._sweep_at:
            self.sweep()

    def reach(self, offset: int, error_code: int = ErrorCode.NONE) -> None:
        """Completes what waits for this offset or one before it; error_code: that was not enough."""
        reached = self[: bisect_right(self, offset, key=_needed)]
        del self[: len(reached)]
        _complete(reached, error_code)

    def refuse(self, error_code: int) -> None:
        """No offset is reached here any more: the leader is another, the partition is gone, or the disk failed."""
        refused = list(self)
        self.clear()
        _complete(refused, error_code)

    def drop_done(self) -> None:
        """Lets those that are done go from the front, after one or many have expired."""
        left = next((at for at, entry in enumerate(self) if not entry[1].done), len(self))
        del self[:left]

    def sweep(self) -> None:
        """Lets all go that are done."""
        self[:] = [entry for entry in self if not entry[1].done]
        self._sweep_at = 2 * len(self) + _FEW


def _complete(entries: Iterable[_Entry], error_code: int) -> None:
    connections: set[Flushed] = set()
    for _, operation, key in entries:
        if not operation.done:
            if error_code:
                key.error_code = error_code
            operation.try_complete(key)
            if operation.done and operation.connection is not None:
                connections.add(operation.connection)
    for connection in connections:
        connection.flush()
