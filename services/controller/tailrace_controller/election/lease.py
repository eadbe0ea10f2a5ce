"""Who may decide: when a contender may take the lease row, and how long its holder may trust in it. Pure.

Safety never rests on time: every append checks the epoch of the row under its lock. Time only says when it is worth
trying (a contender: the row did not change for the lease time) and when to say nothing for a while (a holder that did
not get through to the database for the lease time). Both measure on their own monotonic clock, so that clocks that jump
or differ cost a needless election at worst.
"""

import math

from tailrace_controller.metadata_log.lease_row import NOBODY, Candidate, Lease

RENEWALS_PER_LEASE = 4  # a holder renews this often, so that one slow answer costs nothing
STAND_BACK_LEASES = 3  # how long a controller that gave the lease away leaves it to others


class Judge:
    """A contender's view of the row; times are milliseconds of its monotonic clock."""

    def __init__(self, candidate: Candidate, lease_ms: float) -> None:
        self._candidate = candidate
        self._lease_ms = lease_ms
        self._seen: Lease | None = None
        self._since_ms = 0.0
        self._stand_back_until_ms = -math.inf

    def may_take(self, lease: Lease, asked_ms: float, answered_ms: float) -> bool:
        """Takes note of the row as the database held it between two moments, and says whether its holder is gone.

        Unchanged means: seen in one answer, and still the same in one that was asked for a lease time later.
        """
        if lease != self._seen:
            self._seen, self._since_ms = lease, answered_ms
        if self._candidate.exclusive:
            return True
        if lease.holder == NOBODY:
            return asked_ms >= self._stand_back_until_ms
        return self._candidate.holds(lease) or asked_ms - self._since_ms >= self._lease_ms

    def stand_back(self, now_ms: float) -> None:
        """Leaves the lease to others for a while; nobody may want it, then it is ours again."""
        self._stand_back_until_ms = now_ms + STAND_BACK_LEASES * self._lease_ms

    def next_look_ms(self, now_ms: float) -> float:
        """How long it can take until the answer may be another one, without news."""
        assert self._seen is not None
        due_ms = self._since_ms + self._lease_ms
        if self._seen.holder == NOBODY:
            due_ms = self._stand_back_until_ms
        return min(max(due_ms - now_ms, 1.0), self._lease_ms / 2)

    def is_fresh(self, now_ms: float) -> bool:
        """Whether somebody held the lease a lease time ago at most, as far as this contender knows."""
        return self._seen is not None and self._seen.holder != NOBODY and now_ms - self._since_ms < self._lease_ms


class Tenure:
    """A holder's view of its lease: how long it may answer without having heard from the database."""

    def __init__(self, lease_ms: float, asked_ms: float) -> None:
        """lease_ms is infinite where no other controller can be (SQLite)."""
        self._lease_ms = lease_ms
        self._renewed_ms = asked_ms

    def renewed(self, asked_ms: float) -> None:
        """The database confirmed the epoch to a question that was sent then."""
        self._renewed_ms = max(self._renewed_ms, asked_ms)

    def age_ms(self, now_ms: float) -> float:
        """Time since the last confirmation was asked for."""
        return now_ms - self._renewed_ms

    def holds(self, now_ms: float) -> bool:
        """Whether nobody else can have judged this lease as expired."""
        return self.age_ms(now_ms) < self._lease_ms

    def due_ms(self, now_ms: float) -> float:
        """How long until the next renewal; at least a tenth of the pace, also after a slow answer."""
        pace_ms = self._lease_ms / RENEWALS_PER_LEASE
        return max(pace_ms - self.age_ms(now_ms), pace_ms / 10)
