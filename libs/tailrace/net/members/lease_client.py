"""Keeps the quota leases filled of a process that holds clients' sockets (a gateway, or a broker with a listener of its
own): AcquireLease every half lease while a limited client is active, every quarter while its lease changes, else
nothing.

All of them ask the quota service with the lowest id that answers, so that one of several knows all leases; one that
has just not answered is asked last for a while, since waiting for it costs half of a lease's time. While none
does, `quota.unavailable` decides what holds (that is in LeasedQuota); asking goes on with backoff and heals by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from random import Random
from typing import Final
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage, ServiceImage
from tailrace.net.address import Address
from tailrace.net.backoff import Backoff
from tailrace.net.client import Client, Disconnected, SaslLogin
from tailrace.net.members.accounts import account_of, fields_of
from tailrace.net.members.endpoints import address_of
from tailrace.net.members.lease_holders import name_of_holder
from tailrace.quota.entity import QuotaKind
from tailrace.quota.leased import LeasedQuota
from tailrace.quota.leases import Demand, Grant
from tailrace.wire.codec import Malformed
from tailrace.wire.messages import AcquireLeaseRequest, AcquireLeaseResponse

ROLE = "quota"
_SOONEST_MS = 10.0
_LONGEST_BACKOFF_MS = 500.0
_SILENT_MS = 2000.0
# Leases: with each the event loops of both sides have some 20 microseconds of work in one step.
_MOST_AT_ONCE: Final = 200


class LeaseClient:
    """`run` until cancelled. `available` says whether the last question was answered."""

    def __init__(
        self,
        leased: LeasedQuota,
        image: Callable[[], MetadataImage],
        holder_id: int,
        incarnation_id: UUID,
        *,
        clock: Clock,
        random: Random,
        log: FilteringBoundLogger,
        boot_id: str,
        secret: SaslLogin | None = None,
    ) -> None:
        """holder_id: of a gateway its id, of a broker as lease_holders.py has it."""
        self.available = True
        self._leased = leased
        self._image = image
        self._holder_id = holder_id
        self._name = name_of_holder(holder_id)
        self._incarnation_id = incarnation_id
        self._clock = clock
        self._backoff = Backoff(clock, random, most_ms=_LONGEST_BACKOFF_MS)
        self._log = log
        self._boot_id = boot_id
        self._secret = secret
        self._wake = asyncio.Event()
        self._clients: dict[int, Client] = {}
        self._silent_ms: dict[int, float] = {}  # when each service did not answer last
        leased.on_wanted = self._wake.set

    async def run(self) -> None:
        """Asks while there is anything to ask for; else it waits without a timer."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                renew_at_ms = 0.0
                while self._leased.active:
                    renew_at_ms = await self._step(renew_at_ms)
        finally:
            for client in self._clients.values():
                await client.close()

    async def _step(self, renew_at_ms: float) -> float:
        """Asks for new clients at once and for all when it is time; returns when that is next."""
        begun_ms = self._clock.monotonic_ms()
        all_due = begun_ms >= renew_at_ms
        while demands := self._demands(begun_ms, all_due=all_due):
            if not await self._acquire(demands, self._clock.monotonic_ms()):
                self._leased.unanswered(demands)
                await self._backoff.wait()
                return 0.0
        if all_due:
            renew_at_ms = begun_ms + self._leased.terms.lease_ms / 4
        await self._clock.sleep(_SOONEST_MS)
        await self._until(renew_at_ms)
        return renew_at_ms

    def _demands(self, begun_ms: float, *, all_due: bool) -> list[Demand]:
        now_ms = self._clock.monotonic_ms()
        if all_due:
            return self._leased.demands(now_ms, begun_ms, _MOST_AT_ONCE)
        return self._leased.fresh_demands(now_ms, _MOST_AT_ONCE)

    async def _until(self, at_ms: float) -> None:
        """Returns at that time, or as soon as a new client wants a lease."""
        timer = self._clock.call_later(max(0.0, at_ms - self._clock.monotonic_ms()), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
        self._wake.clear()

    async def _acquire(self, demands: Sequence[Demand], asked_ms: float) -> bool:
        request = self._request(demands)
        why = "no quota service is registered"
        for service in self.services():
            try:
                answer = await (await self._client(service)).ask(request, timeout_ms=self._leased.terms.lease_ms / 2)
            except (Disconnected, TimeoutError, Malformed) as failed:
                why = str(failed) or "it did not answer in time"
                self._silent_ms[service.service_id] = self._clock.monotonic_ms()
                continue
            if answer.error_code == ErrorCode.NONE:
                self._take(answer, asked_ms)
                return True
            why = ErrorCode(answer.error_code).name
        if self.available:
            self._log.warning("no quota leases", why=why, until_then=self._leased.terms.unavailable)
        self.available = False
        return False

    def services(self) -> list[ServiceImage]:
        """Whom to ask, in order: by id, but behind the others for a while after silence."""
        asked_again_ms = self._clock.monotonic_ms() - _SILENT_MS
        services = self._image().services_of(ROLE)
        return sorted(services, key=lambda one: self._silent_ms.get(one.service_id, -inf) > asked_again_ms)

    def _take(self, answer: AcquireLeaseResponse, asked_ms: float) -> None:
        grants = [
            Grant(account_of(entry), QuotaKind(entry.kind), entry.limited, entry.rate, entry.credit)
            for entry in answer.entries
        ]
        self._leased.granted(grants, answer.lease_ms, asked_ms, self._clock.monotonic_ms())
        self._backoff.reset()
        if not self.available:
            self._log.info("quota leases again")
        self.available = True

    def _request(self, demands: Sequence[Demand]) -> AcquireLeaseRequest:
        entry = AcquireLeaseRequest.LeaseDemand
        return AcquireLeaseRequest(
            gateway_id=self._holder_id,
            incarnation_id=self._incarnation_id,
            entries=[
                entry(
                    **fields_of(demand.account),
                    kind=demand.kind,
                    rate=demand.rate,
                    used=demand.used,
                    unused=demand.unused,
                    throttle_time_ms=demand.throttle_time_ms,
                    debt_ms=demand.debt_ms,
                )
                for demand in demands
            ],
        )

    async def _client(self, service: ServiceImage) -> Client:
        address = address_of(service.endpoints, self._boot_id) or Address("", 0)
        client = self._clients.get(service.service_id)
        if client is None or client.address != address:
            if client is not None:
                await client.close()
            client = self._clients[service.service_id] = Client(address, self._name, login=self._secret)
        return client
