"""What one connection took above its client's rate: it is read again when that is earned, whatever becomes of leases.

So every connection is ahead of the rate by one request at most. A time reckoned when the request came would be wrong as
soon as the lease changes: too short where it becomes smaller, too long where it grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tailrace.quota.leased_bucket import LeasedBucket


class PendingThrottle:
    """Marks in the accounts that were charged: what was charged to them when this connection's turn came."""

    __slots__ = ("_marks", "_now_ms", "until_ms")

    def __init__(self, marks: dict[LeasedBucket, float], until_ms: float, now_ms: Callable[[], float]) -> None:
        """until_ms: nobody waits longer than the longest throttle."""
        self._marks = marks
        self.until_ms = until_ms
        self._now_ms = now_ms

    def wait_ms(self) -> int:
        """For how long the connection is not to be read, as far as is known now; 0 when all is earned."""
        now_ms = self._now_ms()
        if not self._marks or now_ms >= self.until_ms:
            return 0
        wait_ms = max(bucket.wait_ms(charged, now_ms) for bucket, charged in self._marks.items())
        return math.ceil(min(wait_ms, self.until_ms - now_ms))

    def join(self, later: PendingThrottle) -> PendingThrottle:
        """This and what was taken after it; the longest throttle runs from the first."""
        later.until_ms = self.until_ms = min(self.until_ms, later.until_ms)
        if not self._marks:
            return later
        self._marks.update(later._marks)
        return self

    def watch(self, again: Callable[[], None]) -> None:
        """Has `again` called when more is leased, so that wait_ms may be shorter than it was."""
        for bucket in self._marks:
            bucket.waiting[again] = None

    def unwatch(self, again: Callable[[], None]) -> None:
        """The opposite."""
        for bucket in self._marks:
            bucket.waiting.pop(again, None)


def no_pending_throttle() -> PendingThrottle:
    """Of a connection within its rate."""
    return PendingThrottle({}, math.inf, float)
