"""Gateways with clients, a quota service that may die, and a network that loses leases; one seed is one history."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tailrace.quota.entity import CLIENT_ID, ClientQuotas, QuotaKind
from tailrace.quota.leased import LeasedQuota
from tailrace.quota.leased_bucket import Terms
from tailrace.quota.leases import LeaseTable

LEASE_MS = 500.0
TIMEOUT_MS = 100.0
CLIENT = "app"


def quotas(rate: float) -> ClientQuotas:
    return ClientQuotas({((CLIENT_ID, CLIENT),): {"producer_byte_rate": rate}})


@dataclass
class Connection:
    """Sends a request, waits for its answer, obeys the mute, sends the next; `think_ms` between them."""

    gateway: int
    size_bytes: int
    think_ms: float
    open: bool = True


@dataclass
class Passed:
    """What went through, as (time, bytes), for sums over windows."""

    at: list[tuple[float, int]] = field(default_factory=list)

    def between(self, start_ms: float, end_ms: float) -> int:
        return sum(size for at_ms, size in self.at if start_ms <= at_ms < end_ms)


class World:
    """A heap of events over the real quota code."""

    def __init__(self, seed: int, rate: float, gateways: int, unavailable: str = "last", loss: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.now_ms = 0.0
        self.rate = rate
        self.loss = loss
        self.quotas = quotas(rate)
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.order = 0
        self.passed = Passed()
        self.most_leased = 0.0
        self.service: LeaseTable | None = LeaseTable(LEASE_MS, 1000, -LEASE_MS)
        self.gateways = [LeasedQuota(Terms(LEASE_MS, unavailable, 15_000, 1000), 1000) for _ in range(gateways)]
        for index, gateway in enumerate(self.gateways):
            gateway.update(self.quotas, gateways, 0.0)
            gateway.on_wanted = self.asker(index, fresh=True)
            self.later(self.random.uniform(0, LEASE_MS / 2), self.renewer(index))

    def asker(self, index: int, *, fresh: bool = False) -> Callable[[], None]:
        return lambda: self.later(1, lambda: self.ask(index, fresh=fresh))

    def renewer(self, index: int) -> Callable[[], None]:
        return lambda: self.renew(index)

    def later(self, delay_ms: float, event: Callable[[], None]) -> None:
        self.order += 1
        heapq.heappush(self.events, (self.now_ms + delay_ms, self.order, event))

    def run(self, until_ms: float) -> None:
        while self.events and self.events[0][0] <= until_ms:
            self.now_ms, _, event = heapq.heappop(self.events)
            event()
            if self.service is not None:
                self.most_leased = max(self.most_leased, self.service.leased(CLIENT, QuotaKind.PRODUCE, self.now_ms))
        self.now_ms = until_ms

    def renew(self, index: int) -> None:
        self.ask(index)
        self.later(LEASE_MS / 2 * self.random.uniform(0.95, 1.05), self.renewer(index))

    def ask(self, index: int, *, fresh: bool = False) -> None:
        """One AcquireLease; either way may be lost, which the gateway notices and then asks again."""
        gateway, asked_ms = self.gateways[index], self.now_ms
        demands = gateway.fresh_demands(self.now_ms) if fresh else gateway.demands(self.now_ms)
        if not demands:
            return

        def give_up() -> None:
            gateway.unanswered(demands)
            self.later(self.random.uniform(20, 40), self.asker(index))

        def arrive() -> None:
            if self.service is None or self.random.random() < self.loss:
                self.later(TIMEOUT_MS, give_up)
                return
            grants = self.service.acquire((index, ""), demands, self.quotas, range(len(self.gateways)), self.now_ms)
            if self.random.random() < self.loss:
                self.later(TIMEOUT_MS, give_up)
                return
            delay_ms = self.random.uniform(0.2, 5)
            self.later(delay_ms, lambda: gateway.granted(grants, LEASE_MS, asked_ms, self.now_ms))

        self.later(self.random.uniform(0.2, 5), arrive)

    def kill_service(self) -> None:
        self.service = None

    def start_service(self) -> None:
        self.service = LeaseTable(LEASE_MS, 1000, self.now_ms)

    def connect(self, gateway: int, size_bytes: int, think_ms: float = 1.0) -> Connection:
        connection = Connection(gateway, size_bytes, think_ms)
        self.later(self.random.uniform(0, 20), lambda: self.send(connection))
        return connection

    def send(self, connection: Connection) -> None:
        if not connection.open:
            return
        gateway = self.gateways[connection.gateway]
        meter = gateway.meter(CLIENT, self.now_ms)
        throttle_ms = meter.charge(QuotaKind.PRODUCE, connection.size_bytes, self.now_ms)
        self.passed.at.append((self.now_ms, connection.size_bytes))
        pause_ms = max(throttle_ms, self.random.uniform(0.2, 2)) + connection.think_ms * self.random.uniform(0.5, 1.5)
        self.later(pause_ms, lambda: self.send(connection))
