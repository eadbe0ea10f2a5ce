"""One account at one gateway: a token bucket that fills at the rate of its lease, and what to ask for next.

Nothing here waits and nothing reads a clock: a charge is arithmetic on the bucket.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tailrace.quota.bucket import TokenBucket
from tailrace.quota.entity import UNITS, Account, QuotaKind
from tailrace.quota.leases import FLOOR, Demand

INT_MAX = 2**31 - 1
_HEADROOM = 0.25
_SETTLED = 0.05
_CRUMBS = 32
IDLE_REPORTS = 8
_CONNECTIONS_MS = 1000.0
_NOTICED_MS, _NOTICED = 10.0, 0.02  # by so much, or such a part of it, a wait must be shorter before anybody is told
BURST_MS = 100.0
"""How much unused lease a bucket keeps; the rest goes back to the quota service, which gives it to whoever is short."""


class Terms:
    """What all buckets of one gateway share."""

    __slots__ = ("accepting", "gateways", "lease_ms", "max_throttle_ms", "unavailable", "wanted", "window_ms")

    def __init__(self, lease_ms: float, unavailable: str, max_throttle_ms: float, window_ms: float) -> None:
        self.lease_ms = lease_ms
        self.unavailable = unavailable
        self.max_throttle_ms = max_throttle_ms
        self.window_ms = window_ms
        self.gateways = 1
        self.accepting = 1  # of them those that accept connections
        self.wanted: Callable[[LeasedBucket], None] = lambda bucket: None


class Room:
    """What may be charged by a comparison and a subtraction, with no look at the clock: `room` is lessened by it."""

    __slots__ = ("room",)

    def __init__(self, room: float) -> None:
        self.room = room


UNLIMITED = Room(math.inf)


class LeasedBucket(Room):
    """One account's use of one kind, in the units of that kind.

    `limit` is the rate over the whole cluster, the bucket's rate is our lease. `room` is what lay in the bucket after
    the last charge. What was taken of it counts when the bucket is looked at next, which is each time that it is
    charged, reported or leased again: until then a bucket that is full may fill a second time.
    """

    __slots__ = (
        "__weakref__",
        "_asked_bytes",
        "_asked_ms",
        "_bucket",
        "_debt_until_ms",
        "_idle_reports",
        "_in_debt_ms",
        "_reported_ms",
        "_room_given",
        "_shorter_ms",
        "_terms",
        "_used_rate",
        "account",
        "active",
        "charged",
        "due_ms",
        "expires_ms",
        "kind",
        "lifted",
        "limit",
        "throttle_time_ms",
        "used",
        "waiting",
    )

    def __init__(self, account: Account, kind: QuotaKind, limit: float, terms: Terms, now_ms: float) -> None:
        super().__init__(0.0)
        self._room_given = 0.0
        self.account = account
        self.kind = kind
        self.limit = limit
        self.lifted = False  # the quota was removed
        self.active = False
        self.expires_ms = now_ms
        self.due_ms = now_ms  # of the next report
        self.used = 0.0
        self.throttle_time_ms = 0.0  # given since the last report
        self.charged = 0.0  # ever
        self.waiting: dict[Callable[[], None], None] = {}  # told when more is leased, in order
        self._terms = terms
        self._asked_bytes = 0.0
        self._asked_ms = now_ms
        self._bucket = TokenBucket(limit, limit, now_ms)
        self._debt_until_ms = now_ms
        self._in_debt_ms = 0.0
        self._idle_reports = 0
        self._used_rate = 0.0
        self._reported_ms = now_ms
        self._shorter_ms = 0.0  # by what grants made waits shorter since anybody was told
        self._set_rate(self._fair(), now_ms)

    @property
    def rate(self) -> float:
        """What this gateway may pass on a second now."""
        return self._bucket.rate

    def charge(self, amount: float, now_ms: float) -> int:
        """Takes the amount and returns throttle_time_ms (KIP-219), at most the longest throttle."""
        self._count_room()
        if now_ms >= self.expires_ms:
            self._run_out(now_ms)
            if self._opened(now_ms):
                self.used += amount
                return 0
        self.used += amount
        self.charged += amount
        level = self._bucket.charge(amount, now_ms)
        if level >= 0:
            self.room = self._room_given = level
            return 0
        until_ms = now_ms - level / self._bucket.rate * 1000
        self._in_debt_ms += max(0.0, until_ms - max(now_ms, self._debt_until_ms))
        self._debt_until_ms = until_ms
        # A client waits for the time that it is told, though its lease may grow meanwhile, up to the whole rate. Where
        # the lease stays smaller the client is not read before the debt is paid (pending_throttle.py).
        rate = self._bucket.rate if self._closed(now_ms) else self.limit
        throttle_time_ms = min(math.ceil(-level / rate * 1000), int(self._terms.max_throttle_ms))
        self.throttle_time_ms += throttle_time_ms
        return throttle_time_ms

    def wait_ms(self, charged: float, now_ms: float) -> float:
        """How long it takes until the first `charged` of all that was charged are earned, at the rate of now."""
        if self.lifted:
            return 0.0
        self._count_room()
        pending_throttle = self._bucket.debt(now_ms) - (self.charged - charged)
        return max(0.0, pending_throttle) / self._bucket.rate * 1000

    def report(self) -> None:
        """More is leased, or nothing has to be earned any more."""
        self._shorter_ms = 0.0
        for again in tuple(self.waiting):
            again()

    def admit(self, now_ms: float) -> int:
        """Charges one unless there is debt; then charges nothing and returns for how many ms (KIP-612)."""
        throttle_time_ms = self.charge(0.0, now_ms)
        if not throttle_time_ms:
            self.charge(UNITS[self.kind], now_ms)
        return throttle_time_ms

    def window_bytes(self, now_ms: float) -> int:
        """The most one Fetch may bring; at least one byte.

        What is asked at once on many connections shares one window: the first may have it, the others a crumb of it, so
        that a consumer that starts does not bring connections times window before anything could be charged.
        """
        if now_ms >= self.expires_ms and self._opened(now_ms):
            return INT_MAX
        rate = self._bucket.rate
        if rate < (fair := self._fair()) and not self._closed(now_ms):
            rate = fair
        window = rate * self._terms.window_ms / 1000
        if now_ms > self._asked_ms:
            self._asked_bytes -= (now_ms - self._asked_ms) * rate / 1000
            if self._asked_bytes < 0:
                self._asked_bytes = 0.0
        self._asked_ms = now_ms
        most = max(window / _CRUMBS, window - self._asked_bytes)
        self._asked_bytes += most
        return max(1, min(INT_MAX, int(most)))

    def relimit(self, limit: float, now_ms: float) -> None:
        """A quota was changed: our part of it stays the same part."""
        rate = self._bucket.rate * limit / self.limit
        self.limit = limit
        self._set_rate(rate, now_ms)
        self.report()

    def demand(self, now_ms: float) -> Demand:
        """The demand, from what was used recently; after IDLE_REPORTS idle reports the lease is given back."""
        self._count_room()
        # A report right after the first request must not take that request for a rate.
        interval_ms = max(self._terms.lease_ms / 2, now_ms - self._reported_ms)
        lost = self._bucket.take_lost(now_ms)
        debt = self._bucket.debt(now_ms)
        spill_ms = max(0.0, self._debt_until_ms - now_ms) if debt else 0.0
        in_debt = min(1.0, max(0.0, self._in_debt_ms - spill_ms) / interval_ms)
        used, self.used = self.used, 0.0
        throttle_time_ms, self.throttle_time_ms = self.throttle_time_ms, 0.0
        self._in_debt_ms = spill_ms
        self._reported_ms = now_ms
        self.due_ms = now_ms + self._terms.lease_ms / 2
        self._idle_reports = 0 if used or debt else self._idle_reports + 1
        if self._idle_reports >= IDLE_REPORTS:
            self.active = False
            self.expires_ms = now_ms  # the next charge asks for another one
            return Demand(self.account, self.kind, 0.0, 0.0, lost, throttle_time_ms)
        # A muted client looks idle between its requests: only the mean over some reports tells what it uses.
        rate = used * 1000 / interval_ms
        self._used_rate = (self._used_rate + rate) / 2 if self._used_rate else rate
        if not used and not debt:
            self._used_rate /= 2
        # Who was held back for the whole time may want all that there is: ask for it, and for the debt at once.
        need = self._used_rate * (1 + max(_HEADROOM, in_debt)) + debt * 1000 / interval_ms
        wanted = max(1.0, need + self.limit * in_debt)
        return Demand(self.account, self.kind, wanted, used, lost, throttle_time_ms, spill_ms)

    def unanswered(self, demand: Demand) -> None:
        """A report that got no answer: what it said is said again with the next one."""
        self.due_ms = self._reported_ms
        self.used += demand.used
        self.throttle_time_ms += demand.throttle_time_ms
        self._bucket.lost += demand.unused

    def grant(self, rate: float, credit: float, expires_ms: float, now_ms: float) -> None:
        """A lease came, with what other gateways left unused."""
        self.expires_ms = expires_ms
        longest_ms = self.wait_ms(self.charged, now_ms)
        self._bucket.add(credit, now_ms)
        change = rate if self._idle_reports else abs(rate - self._bucket.rate)
        if change > _SETTLED * self.limit:  # demand is on its way from one gateway to another: report sooner
            self.due_ms = self._reported_ms + self._terms.lease_ms / 4
        self._set_rate(rate, now_ms)
        # Each that is told sets a new timer, and thousands may wait: a little more is no reason. What they are late by
        # is not lost, it lies in the bucket.
        left_ms = self.wait_ms(self.charged, now_ms)
        self._shorter_ms = max(0.0, self._shorter_ms + longest_ms - left_ms)
        if self._shorter_ms > max(_NOTICED_MS, _NOTICED * left_ms):
            self.report()

    def _run_out(self, now_ms: float) -> None:
        if not self.active:
            # Idle until now: an even share holds for the moment that asking for a lease takes.
            self.active = True
            self._idle_reports = 0
            self._used_rate = 0.0
            self._reported_ms = now_ms
            self.used = 0.0
            self._in_debt_ms = 0.0
            self.expires_ms = now_ms + self._terms.lease_ms
            self._set_rate(self._fair(), now_ms)
            saved = self._burst(self._fair()) if self.kind == QuotaKind.CONNECTION else 0.0
            self._bucket.level = min(self._bucket.level, 0.0) + saved
            self._bucket.lost = 0.0
            self._terms.wanted(self)
        elif self._terms.unavailable == "closed":
            self._set_rate(FLOOR * self._fair(), now_ms)

    def _count_room(self) -> None:
        taken = self._room_given - self.room
        self.room = self._room_given = 0.0
        self.used += taken
        self.charged += taken
        self._bucket.level -= taken

    def _set_rate(self, rate: float, now_ms: float) -> None:
        self._count_room()
        rate = max(1.0, rate)
        self._bucket.refill_at(rate, self._burst(rate), now_ms)
        spill_ms = max(0.0, self._debt_until_ms - now_ms)
        self._debt_until_ms = now_ms + self._bucket.debt(now_ms) * 1000 / rate
        self._in_debt_ms += self._debt_until_ms - now_ms - spill_ms

    def _burst(self, rate: float) -> float:
        """A client opens several connections at once: of these a second's even share is kept, whatever the lease."""
        if self.kind == QuotaKind.CONNECTION:
            return max(UNITS[self.kind], self._fair() * _CONNECTIONS_MS / 1000)
        return rate * BURST_MS / 1000

    def _fair(self) -> float:
        terms = self._terms
        return self.limit / (terms.accepting if self.kind == QuotaKind.CONNECTION else terms.gateways)

    def _opened(self, now_ms: float) -> bool:
        return self._terms.unavailable == "open" and self.active and now_ms >= self.expires_ms

    def _closed(self, now_ms: float) -> bool:
        return self._terms.unavailable == "closed" and now_ms >= self.expires_ms
