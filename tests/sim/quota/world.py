"""Gateways with clients, a quota service that may die, and a network that loses leases; one seed is one history.

What is called a gateway here may be a broker: to a lease they are the same, and a client that a gateway hands over is
charged from its first data request on at the broker alone. `idle`: how many others are live and have no client.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf

from tailrace.net.quotas.mute import Mute
from tailrace.quota.entity import CLIENT_ID, Account, ClientQuotas, QuotaKind
from tailrace.quota.leased import LeasedQuota
from tailrace.quota.leased_bucket import Terms
from tailrace.quota.leases import Demand, Grant, LeaseTable

LEASE_MS = 500.0
TIMEOUT_MS = 100.0
MAX_THROTTLE_MS = 15_000.0
SPREAD_MS = 50.0  # until all have heard of a change
CLIENT = "app"
ACCOUNT: Account = ((CLIENT_ID, CLIENT),)


def quotas(rate: float) -> ClientQuotas:
    return ClientQuotas({((CLIENT_ID, CLIENT),): {"producer_byte_rate": rate}})


@dataclass(eq=False)
class Connection:
    """Sends a request, waits for its answer and for the time it was told, sends the next; `think_ms` between them.

    The gateway does not read the next one before what this one took is earned.
    """

    gateway: int
    size_bytes: int
    think_ms: float
    opened_ms: float = 0.0
    closed_ms: float = inf
    mute: Mute = field(init=False)

    @property
    def open(self) -> bool:
        return self.closed_ms == inf


class Event:
    """Something that happens when its time comes."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self.happens: Callable[[], None] | None = happens

    def cancel(self) -> None:
        self.happens = None


@dataclass
class Passed:
    """What went through, as (time, bytes), for sums over windows."""

    at: list[tuple[float, int]] = field(default_factory=list)

    def between(self, start_ms: float, end_ms: float) -> int:
        return sum(size for at_ms, size in self.at if start_ms <= at_ms < end_ms)


class World:
    """A heap of events over the real quota code."""

    def __init__(
        self, seed: int, rate: float, gateways: int, unavailable: str = "last", loss: float = 0.0, idle: int = 0
    ) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now_ms = 0.0
        self.rate = rate
        self.loss = loss
        self.quotas = quotas(rate)
        self.events: list[tuple[float, int, Event]] = []
        self.order = 0
        self.passed = Passed()
        self.most_leased = 0.0
        self.told_until_ms = 0.0  # the longest that any client was told to wait
        self.service: LeaseTable | None = LeaseTable(LEASE_MS, 1000, -LEASE_MS)
        self.live = set(range(-idle, gateways))  # as the metadata have it
        self.dead: set[int] = set()
        self.incarnations = [0] * gateways
        self.connections: list[Connection] = []
        self.gateways: list[LeasedQuota] = []
        self.terms = (LEASE_MS, unavailable, MAX_THROTTLE_MS, 1000.0)
        for index in range(gateways):
            self.gateways.append(self.new_gateway(index))

    def new_gateway(self, index: int) -> LeasedQuota:
        gateway = LeasedQuota(Terms(*self.terms), 1000)
        gateway.update(self.quotas, len(self.live), self.now_ms)
        gateway.on_wanted = self.asker(index, fresh=True)
        self.later(self.random.uniform(0, LEASE_MS / 4), self.renewer(index))
        return gateway

    def asker(self, index: int, *, fresh: bool = False) -> Callable[[], None]:
        def wanted() -> None:
            self.later(1, lambda: self.ask(index, fresh=fresh))

        return wanted

    def renewer(self, index: int) -> Callable[[], None]:
        return lambda: self.renew(index)

    def later(self, delay_ms: float, happens: Callable[[], None]) -> Event:
        self.order += 1
        event = Event(happens)
        heapq.heappush(self.events, (self.now_ms + delay_ms, self.order, event))
        return event

    def run(self, until_ms: float) -> None:
        while self.events and self.events[0][0] <= until_ms:
            at_ms, _, event = heapq.heappop(self.events)
            if event.happens is None:
                continue
            self.now_ms = at_ms
            event.happens()
            self.most_leased = max(self.most_leased, self.leased())
        self.now_ms = until_ms

    def leased(self) -> float:
        """What all gateways may pass on a second, by what was booked."""
        return 0.0 if self.service is None else self.service.leased(ACCOUNT, QuotaKind.PRODUCE, self.now_ms)

    def renew(self, index: int) -> None:
        if index in self.dead:
            return
        self.ask(index)
        self.later(LEASE_MS / 4 * self.random.uniform(0.95, 1.05), self.renewer(index))

    def ask(self, index: int, *, fresh: bool = False) -> None:
        """One AcquireLease; either way may be lost, which the gateway notices and then asks again."""
        if index in self.dead:
            return
        gateway, asked_ms = self.gateways[index], self.now_ms
        demands = gateway.fresh_demands(self.now_ms) if fresh else gateway.demands(self.now_ms)
        if not demands:
            return

        def give_up() -> None:
            gateway.unanswered(demands)
            self.later(self.random.uniform(20, 40), self.asker(index))

        def answer(grants: list[Grant] | None) -> None:
            if grants is None or self.random.random() < self.loss:
                self.later(TIMEOUT_MS, give_up)
                return
            delay_ms = self.random.uniform(0.2, 5)
            self.later(delay_ms, lambda: gateway.granted(grants, LEASE_MS, asked_ms, self.now_ms))

        def arrive() -> None:
            if self.random.random() < self.loss:
                answer(None)
            else:
                self.decide(index, demands, answer)

        self.later(self.random.uniform(0.2, 5), arrive)

    def decide(self, index: int, demands: list[Demand], answer: Callable[[list[Grant] | None], None]) -> None:
        """What the quota service does with a gateway's demands."""
        if self.service is None:
            answer(None)
        else:
            holder = (index, str(self.incarnations[index]))
            answer(self.service.acquire(holder, demands, self.quotas, set(self.live), self.now_ms))

    def kill_service(self) -> None:
        self.service = None

    def start_service(self) -> None:
        self.service = LeaseTable(LEASE_MS, 1000, self.now_ms)

    def kill_gateway(self, index: int, noticed_ms: float = 150.0) -> None:
        """Its connections are opened anew elsewhere; the others hear of it later."""
        self.dead.add(index)
        for connection in [one for one in self.connections if one.open and one.gateway == index]:
            self.close(connection)
            size_bytes, think_ms = connection.size_bytes, connection.think_ms
            self.later(self.random.uniform(10, 100), partial(self.connect_somewhere, size_bytes, think_ms))
        self.later(noticed_ms, partial(self.set_live, self.live - {index}))

    def start_gateway(self, index: int) -> None:
        self.dead.discard(index)
        self.incarnations[index] += 1
        self.gateways[index] = self.new_gateway(index)
        self.set_live(self.live | {index})

    def set_live(self, live: set[int]) -> None:
        self.live = live
        self.spread_metadata()

    def set_rate(self, rate: float) -> None:
        """The quota is changed: the quota service and each gateway hear of it when they do."""
        self.rate = rate
        self.later(self.random.uniform(0, SPREAD_MS), partial(setattr, self, "quotas", quotas(rate)))
        self.spread_metadata()

    def spread_metadata(self) -> None:
        changed = quotas(self.rate)
        for index, gateway in enumerate(self.gateways):
            if index not in self.dead:
                self.later(self.random.uniform(0, SPREAD_MS), partial(self.update, gateway, changed))

    def update(self, gateway: LeasedQuota, changed: ClientQuotas) -> None:
        gateway.update(changed, max(1, len(self.live)), self.now_ms)

    def connect(self, gateway: int, size_bytes: int, think_ms: float = 1.0) -> Connection:
        connection = Connection(gateway, size_bytes, think_ms, self.now_ms)
        connection.mute = Mute(lambda: self.now_ms, self.later, partial(self.unmuted, connection))
        self.connections.append(connection)
        self.later(self.random.uniform(0, 20), lambda: self.send(connection))
        return connection

    def connect_somewhere(self, size_bytes: int, think_ms: float) -> None:
        self.connect(
            self.random.choice([i for i in range(len(self.gateways)) if i not in self.dead]), size_bytes, think_ms
        )

    def close(self, connection: Connection) -> None:
        connection.closed_ms = self.now_ms
        connection.mute.cancel()

    def send(self, connection: Connection) -> None:
        if not connection.open:
            return
        gateway = self.gateways[connection.gateway]
        meter = gateway.meter("u", CLIENT, self.now_ms)
        throttle_ms = meter.charge(QuotaKind.PRODUCE, connection.size_bytes, self.now_ms)
        self.passed.at.append((self.now_ms, connection.size_bytes))
        self.told_until_ms = max(self.told_until_ms, self.now_ms + throttle_ms)
        answered_ms = self.random.uniform(0.2, 2)  # the client sends nothing before
        pending_throttle = meter.take_pending_throttle(MAX_THROTTLE_MS, lambda: self.now_ms)
        connection.mute.throttle(max(throttle_ms, answered_ms), pending_throttle)

    def unmuted(self, connection: Connection) -> None:
        think_ms = connection.think_ms * self.random.uniform(0.5, 1.5)
        self.later(think_ms, lambda: self.send(connection))
