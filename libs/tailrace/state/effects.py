"""Effects: what a decision wants to happen, as values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

R = TypeVar("R")

Token = int  # stands for one asker; the shell keeps the future it belongs to
SHELL: Token = 0  # stands for the shell itself: a reply to it is something to do


class Timer(NamedTuple):
    """A deadline by key: it replaces the one of the same key; delay_ms None cancels it."""

    key: Hashable
    delay_ms: int | None


@dataclass(frozen=True, slots=True)
class Effects(Generic[R]):
    """Records to append, replies to send once everything the decision saw is committed, timers to set at once.

    is_whole: all records go into one batch of the log, which they must fit.
    """

    records: tuple[R, ...] = ()
    replies: tuple[tuple[Token, Any], ...] = ()
    timers: tuple[Timer, ...] = ()
    is_whole: bool = False


class Sweep(NamedTuple):
    """Something to do: a decision about each of the rows, while the shell does other work between."""

    rows: Iterable[Any]  # not of what decisions change
    decide: Callable[[int, Any], Effects[Any]]  # (now_ms, row)


class Decision(Generic[R]):
    """Collects the effects of one decision that several functions make together."""

    __slots__ = ("_is_whole", "_records", "_replies", "_timers")

    def __init__(self) -> None:
        self._records: list[R] = []
        self._replies: list[tuple[Token, Any]] = []
        self._timers: list[Timer] = []
        self._is_whole = False

    def append(self, record: R) -> None:
        self._records.append(record)

    def keep_whole(self) -> None:
        """Has the log take either all records of the decision or none."""
        self._is_whole = True

    def reply(self, token: Token, response: Any) -> None:
        self._replies.append((token, response))

    def act(self, action: Any) -> None:
        """What the shell is to do once everything the decision saw is committed."""
        self._replies.append((SHELL, action))

    def schedule(self, key: Hashable, delay_ms: int) -> None:
        self._timers.append(Timer(key, delay_ms))

    def cancel(self, key: Hashable) -> None:
        self._timers.append(Timer(key, None))

    def effects(self) -> Effects[R]:
        return Effects(tuple(self._records), tuple(self._replies), tuple(self._timers), self._is_whole)
