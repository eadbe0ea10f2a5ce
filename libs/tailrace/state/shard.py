"""Shard: one state machine on one partition. decide -> apply -> append -> reply on commit.

At most one append is in flight; what arrives meanwhile is gathered in the next. Nothing here performs I/O: the shell
appends what `Output.append` holds, and says `committed` when the partition's leader has acknowledged it. On any doubt
(an unknown outcome, a lost leader, a fence) the shell drops the shard and builds another one from the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from tailrace.state.effects import Effects, Timer, Token

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)

KeyValue = tuple[bytes, bytes | None]  # as in the log; value None is a tombstone

RECORD_OVERHEAD_BYTES = 32  # varints of a record in batch v2, with room


class Machine(Protocol[R_contra]):
    """What a shard runs: only `apply` changes replicated state, live and in replay alike."""

    def apply(self, record: R_contra) -> None: ...


class Overloaded(Exception):
    """More is waiting for the log than the shard may hold; the asker should be told to come back."""


@dataclass(frozen=True, slots=True)
class Output:
    """What the shell does next: append these (None: nothing, or one is in flight), send replies, set timers."""

    append: tuple[KeyValue, ...] | None = None
    replies: tuple[tuple[Token, Any], ...] = ()
    timers: tuple[Timer, ...] = ()


class Shard(Generic[R]):
    """Orders decisions, appends and replies. Positions count records since the shard was loaded."""

    def __init__(
        self,
        machine: Machine[R],
        encode: Callable[[R], KeyValue],
        *,
        max_batch_bytes: int,
        max_waiting_bytes: int = 16 * 1024 * 1024,
        max_waiting_replies: int = 20_000,
    ) -> None:
        self.machine: Any = machine  # the shell knows which one it is
        self.encode = encode
        self.max_batch_bytes = max_batch_bytes
        self.max_waiting_bytes = max_waiting_bytes
        self.max_waiting_replies = max_waiting_replies
        self.dropped = False
        self._written = 0
        self._committed = 0
        self._in_flight = 0  # records in the append under way
        self._queue: deque[KeyValue] = deque()
        self._queue_bytes = 0
        self._parked: deque[tuple[int, tuple[Token, Any]]] = deque()

    @property
    def idle(self) -> bool:
        """True when everything decided so far is committed."""
        return self._committed == self._written

    def run(self, decide: Callable[[], Effects[R]]) -> Output:
        """Takes one decision and applies it. Raises Overloaded before deciding when too much waits."""
        assert not self.dropped, "a dropped shard decides nothing"
        if self._queue_bytes > self.max_waiting_bytes or len(self._parked) > self.max_waiting_replies:
            raise Overloaded
        return self.take(decide())

    def take(self, effects: Effects[R]) -> Output:
        """Applies effects that cannot wait (timers); `run` is for askers."""
        assert not self.dropped, "a dropped shard applies nothing"
        for record in effects.records:
            self.machine.apply(record)
            key, value = self.encode(record)
            self._queue.append((key, value))
            self._queue_bytes += size_bytes((key, value))
        self._written += len(effects.records)
        # A reply that wrote nothing still waits behind what its decision saw.
        self._parked.extend((self._written, reply) for reply in effects.replies)
        return Output(self._next_append(), self._released(), effects.timers)

    def committed(self) -> Output:
        """The append in flight is on every in-sync replica: releases its replies and starts the next."""
        assert self._in_flight, "nothing was in flight"
        self._committed += self._in_flight
        self._in_flight = 0
        return Output(self._next_append(), self._released())

    def drop(self) -> tuple[Token, ...]:
        """Forgets everything and returns the askers that will get no reply from this shard."""
        self.dropped = True
        tokens = tuple(token for _, (token, _) in self._parked)
        self._parked.clear()
        self._queue.clear()
        return tokens

    def _released(self) -> tuple[tuple[Token, Any], ...]:
        released = []
        while self._parked and self._parked[0][0] <= self._committed:
            released.append(self._parked.popleft()[1])
        return tuple(released)

    def _next_append(self) -> tuple[KeyValue, ...] | None:
        if self._in_flight or not self._queue:
            return None
        batch: list[KeyValue] = []
        batch_bytes = 0
        while self._queue and (not batch or batch_bytes + size_bytes(self._queue[0]) <= self.max_batch_bytes):
            record = self._queue.popleft()
            batch.append(record)
            batch_bytes += size_bytes(record)
        self._queue_bytes -= batch_bytes
        self._in_flight = len(batch)
        return tuple(batch)


def size_bytes(record: KeyValue) -> int:
    """Returns an upper bound of the record's size in a batch, short of headers."""
    key, value = record
    return len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES
