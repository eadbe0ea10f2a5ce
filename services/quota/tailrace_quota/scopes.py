"""Whether gateways and brokers have the quota.scope of the quota service. Where one has another, its clients are
counted in other accounts than the same clients elsewhere, and get a rate more.

An account of quota.scope=broker names a broker, one of quota.scope=cluster does not: so the demands say what is set,
of services of an earlier version too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from structlog.typing import FilteringBoundLogger

from tailrace.net.members.lease_holders import name_of_holder
from tailrace.quota.entity import BROKER
from tailrace.quota.leases import Demand

_SCOPES = ("cluster", "broker")


class Scopes:
    """Told of every request for leases; a change is said once."""

    def __init__(self, scope: str, log: FilteringBoundLogger) -> None:
        """scope: quota.scope of this service."""
        self._scope = scope
        self._log = log
        self._other: set[int] = set()

    def seen(self, holder_id: int, demands: Sequence[Demand]) -> None:
        """What a gateway or broker asks for."""
        if not demands or not demands[0].account:
            return
        scope = _SCOPES[demands[0].account[0][0] == BROKER]
        if (scope != self._scope) == (holder_id in self._other):
            return
        names = {"service": name_of_holder(holder_id), "its_scope": scope, "our_scope": self._scope}
        if scope == self._scope:
            self._other.discard(holder_id)
            self._log.info("quota.scope is alike again", **names)
        else:
            self._other.add(holder_id)
            self._log.warning("quota.scope differs: its clients get a rate of their own", **names)

    def differing(self, live: Collection[int]) -> int:
        """How many of those that run have another quota.scope; the others are forgotten."""
        self._other &= set(live)
        return len(self._other)
