"""The time a limited client takes of this process's event loop (request_percentage, KIP-124)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def timed(
    charge: Callable[[float], None],
    now_ms: Callable[[], float],
    work: Callable[P, R],
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    """Does the work and charges the milliseconds that it took."""
    begun_ms = now_ms()
    try:
        return work(*args, **kwargs)
    finally:
        charge(now_ms() - begun_ms)


class TimedCoroutine(Coroutine[None, None, None]):
    """A coroutine whose steps are run by `run`, which charges them; what it waits for between them is not."""

    def __init__(self, run: Callable[..., Any], work: Coroutine[None, None, None]) -> None:
        self._run = run
        self._work = work

    def send(self, value: Any) -> Any:
        return self._run(self._work.send, value)

    def throw(self, *args: Any) -> Any:
        return self._run(self._work.throw, *args)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        return self._work.__await__()


class WorkTimer:
    """What one connection's work has taken of the event loop and was not charged yet."""

    __slots__ = ("_work_ms", "running")

    def __init__(self) -> None:
        self.running = False  # what called counts the time
        self._work_ms = 0.0

    def run(self, now_ms: Callable[[], float], work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Does work that does not wait."""
        self.running = True
        try:
            return timed(self._worked, now_ms, work, *args, **kwargs)
        finally:
            self.running = False

    def coroutine(self, now_ms: Callable[[], float], work: Coroutine[None, None, None]) -> Coroutine[None, None, None]:
        """The same for work that waits."""
        return TimedCoroutine(partial(self.run, now_ms), work)

    def take_ms(self) -> float:
        """What is to be charged, once."""
        work_ms, self._work_ms = self._work_ms, 0.0
        return work_ms

    def _worked(self, time_ms: float) -> None:
        self._work_ms += time_ms
