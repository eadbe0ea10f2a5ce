"""A connection above its client's rate: not read for the time that was told, nor before what it took is earned.

KIP-219: the client is muted, be it that it obeys or not. What is told while the connection is muted ends no later than
quota.max.throttle.ms after the first charge: nobody waits longer at once, whatever is charged meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from tailrace.clock import Cancellable
from tailrace.quota.pending_throttle import PendingThrottle, no_pending_throttle


class Mute:
    """Of one connection, for one or several throttles that overlap."""

    def __init__(
        self,
        now_ms: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], Cancellable],
        ended: Callable[[], None],
    ) -> None:
        """call_later takes milliseconds; ended is called when the connection may be read again."""
        self._now_ms = now_ms
        self._call_later = call_later
        self._ended = ended
        self._pending_throttle = no_pending_throttle()
        self._throttled_until_ms = 0.0
        self._timer: Cancellable | None = None

    @property
    def on(self) -> bool:
        """Whether the connection is not read."""
        return self._timer is not None

    def throttle(self, throttle_time_ms: float, pending_throttle: PendingThrottle) -> None:
        """The client was told that time, for what it owes."""
        self._pending_throttle.unwatch(self._more)
        self._pending_throttle = self._pending_throttle.join(pending_throttle)
        now_ms = self._now_ms()
        self._throttled_until_ms = min(
            max(self._throttled_until_ms, now_ms + throttle_time_ms), self._pending_throttle.until_ms
        )
        self._wait(max(0.0, self._throttled_until_ms - now_ms))

    def cancel(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pending_throttle.unwatch(self._more)

    def _wait(self, wait_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._call_later(wait_ms, self._over)

    def _over(self) -> None:
        if wait_ms := self._pending_throttle.wait_ms():
            self._pending_throttle.watch(self._more)
            self._wait(wait_ms)
            return
        self._timer = None
        self._pending_throttle.unwatch(self._more)
        self._pending_throttle = no_pending_throttle()
        self._ended()

    def _more(self) -> None:
        self._wait(self._pending_throttle.wait_ms())
