"""The time a limited client takes of this process's event loop (request_percentage, KIP-124)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
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


class TimedCoroutine(Coroutine[Any, Any, None]):
    """A coroutine whose steps are charged, and not what it waits for between them."""

    def __init__(
        self, charge: Callable[[float], None], now_ms: Callable[[], float], work: Coroutine[Any, Any, None]
    ) -> None:
        self._charge = charge
        self._now_ms = now_ms
        self._work = work

    def send(self, value: Any) -> Any:
        return timed(self._charge, self._now_ms, self._work.send, value)

    def throw(self, *args: Any) -> Any:
        return timed(self._charge, self._now_ms, self._work.throw, *args)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        return self._work.__await__()
