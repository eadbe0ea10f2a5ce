"""The same with several quota services over one store that loses, hangs and goes back; gateways ask any of them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable

from sim.quota.world import ACCOUNT, LEASE_MS, World
from tailrace.quota.entity import QuotaKind
from tailrace.quota.leases import Demand, Grant
from tailrace.quota.shared import ContendedError, MemoryBookings, Round, SharedLeases, booking_of


class SharedWorld(World):
    """Each gateway asks a service of its own choice; a twentieth of the time another one."""

    def __init__(
        self, seed: int, rate: float, gateways: int, services: int = 2, loss: float = 0.0, idle: int = 0
    ) -> None:
        super().__init__(seed, rate, gateways, loss=loss, idle=idle)
        self.store = MemoryBookings(lambda: self.now_ms, 4 * LEASE_MS)
        self.services = [self.new_service() for _ in range(services)]
        self.waiting: defaultdict[SharedLeases, deque[Callable[[], None]]] = defaultdict(deque)
        self.away = False
        self.decided = 0
        self.contended = 0

    def new_service(self) -> SharedLeases:
        return SharedLeases(LEASE_MS, 1000, lambda: f"{self.random.getrandbits(64):016x}")

    def decide(self, index: int, demands: list[Demand], answer: Callable[[list[Grant] | None], None]) -> None:
        which = index if self.random.random() < 0.95 else self.random.randrange(len(self.services))
        service = self.services[which % len(self.services)]
        live = set(self.live)
        holder = (index, str(self.incarnations[index]))

        def begin() -> None:
            self.turn(service, service.begin(holder, demands, self.quotas, live), done)

        def done(grants: list[Grant] | None) -> None:
            answer(grants)
            waiting = self.waiting[service]
            waiting.popleft()
            if waiting:
                waiting[0]()

        self.waiting[service].append(begin)  # one exchange of a service at a time
        if len(self.waiting[service]) == 1:
            begin()

    def turn(self, service: SharedLeases, one: Round, answer: Callable[[list[Grant] | None], None]) -> None:
        """One exchange with the store, which takes a while on its way and on its way back."""
        try:
            writes = one.writes(self.now_ms)
        except ContendedError:
            self.contended += 1
            answer(None)
            return
        since_ms = service.since_ms

        def exchange() -> None:
            if self.away:
                answer(None)
                return
            came = self.store.exchange(since_ms, writes)

            def back() -> None:
                if one.take(came):
                    self.decided += 1
                    answer(one.grants)
                else:
                    self.turn(service, one, answer)

            self.later(self.random.uniform(0.1, 1), back)

        self.later(self.random.uniform(0.1, 1), exchange)

    def leased(self) -> float:
        text, until_ms = self.store.texts.get((ACCOUNT, QuotaKind.PRODUCE), ("", 0.0))
        booking = booking_of(text) if until_ms > self.now_ms else None
        return 0.0 if booking is None else booking.leased(self.now_ms)

    def fail_over_to(self, copy: dict[object, object]) -> None:
        """A replica takes over that holds what was copied."""
        self.store.texts = dict(copy)  # type: ignore[arg-type]
