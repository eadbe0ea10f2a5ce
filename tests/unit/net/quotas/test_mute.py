"""A connection is not read for the told time, nor before what it took is earned."""

from __future__ import annotations

from collections.abc import Callable

from tailrace.net.quotas.mute import Mute
from tailrace.quota.entity import Account, ClientQuotas, QuotaKind
from tailrace.quota.leased import LeasedQuota
from tailrace.quota.leased_bucket import Terms
from tailrace.quota.leases import Grant
from tailrace.quota.pending_throttle import no_pending_throttle

RATE, LEASE_MS, LONGEST_MS = 1000.0, 500.0, 5000.0
ACCOUNT: Account = (("client-id", "app"),)


class Timer:
    def __init__(self, world: World) -> None:
        self._world = world

    def cancel(self) -> None:
        self._world.timers.pop(self, None)


class World:
    """One muted connection, a clock that is moved, and timers that ring on the way."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.timers: dict[Timer, tuple[float, Callable[[], None]]] = {}
        self.timers_set = 0
        self.ended: list[float] = []
        self.mute = Mute(lambda: self.now_ms, self.call_later, lambda: self.ended.append(self.now_ms))
        self.quota = LeasedQuota(Terms(LEASE_MS, "last", LONGEST_MS, 1000), 10)
        self.quota.update(ClientQuotas({ACCOUNT: {"producer_byte_rate": RATE}}), 2, 0)
        self.meter = self.quota.meter("u", "app", 0)

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Timer:
        timer = Timer(self)
        self.timers_set += 1
        self.timers[timer] = (self.now_ms + delay_ms, then)
        return timer

    def run(self, until_ms: float) -> None:
        while self.timers and min(at for at, _ in self.timers.values()) <= until_ms:
            timer = min(self.timers, key=lambda one: self.timers[one][0])
            self.now_ms, then = self.timers.pop(timer)
            then()
        self.now_ms = until_ms

    def charge(self, size_bytes: int) -> int:
        throttle_time_ms = self.meter.charge(QuotaKind.PRODUCE, size_bytes, self.now_ms)
        self.mute.throttle(throttle_time_ms, self.meter.take_pending_throttle(LONGEST_MS, lambda: self.now_ms))
        return throttle_time_ms

    def lease(self, rate: float) -> None:
        grant = Grant(ACCOUNT, QuotaKind.PRODUCE, limited=True, rate=rate)
        self.quota.granted([grant], LEASE_MS, self.now_ms, self.now_ms)


def test_a_connection_waits_until_its_lease_has_paid() -> None:
    world = World()
    assert world.charge(100) == 100  # as if all of the rate were leased here: it is half of it
    world.run(199)
    assert world.mute.on and not world.ended
    world.run(201)
    assert world.ended == [200] and not world.mute.on and not world.timers


def test_a_lease_that_grows_ends_the_wait_sooner_but_not_before_the_told_time() -> None:
    world = World()
    world.charge(1000)
    world.lease(RATE / 10)
    world.run(1000)
    assert not world.ended
    world.lease(9 * RATE)  # 900 bytes are owed
    world.run(5000)
    assert world.ended == [1100]


def test_a_grant_sets_new_timers_only_where_the_wait_is_noticeably_shorter() -> None:
    world = World()
    world.charge(1000)
    world.lease(RATE / 10)
    world.run(1000)  # the told time is over; 900 bytes are left, for 9 s
    before = world.timers_set
    for more in range(1, 10):
        world.lease(RATE / 10 * (1 + more / 1000))
    assert world.timers_set == before
    for more in range(10, 30):
        world.lease(RATE / 10 * (1 + more / 1000))  # together it is noticed
    assert world.timers_set == before + 1
    world.lease(RATE)
    assert world.timers_set == before + 2
    world.run(5000)
    assert world.ended == [1000 + 900]


def test_a_throttle_that_comes_while_another_lasts_is_added() -> None:
    world = World()
    world.lease(RATE)
    world.charge(100)
    world.charge(200)
    world.run(5000)
    assert world.ended == [600]  # 300 bytes at half the rate: there is no lease before the first request


def test_a_short_throttle_while_a_long_one_lasts_ends_with_it() -> None:
    world = World()
    world.mute.throttle(3000, no_pending_throttle())
    world.run(2000)
    world.mute.throttle(200, no_pending_throttle())
    world.run(5000)
    assert world.ended == [3000]


def test_what_is_told_while_muted_lasts_no_longer_than_the_longest_throttle_from_the_first() -> None:
    world = World()
    world.lease(RATE)
    assert world.charge(3000) == 3000
    world.run(2000)
    assert world.charge(3500) > LONGEST_MS - 2000
    world.run(2 * LONGEST_MS)
    assert world.ended == [LONGEST_MS]
    world.charge(1000)  # the next time begins anew
    world.run(4 * LONGEST_MS)
    assert world.ended[1] > 2 * LONGEST_MS and not world.timers


def test_a_throttle_without_debt_is_its_time() -> None:
    world = World()
    world.mute.throttle(70, no_pending_throttle())
    world.run(69)
    assert not world.ended
    world.run(100)
    assert world.ended == [70]


def test_the_longest_throttle_ends_every_wait() -> None:
    world = World()
    world.charge(10**9)
    world.run(LONGEST_MS)
    assert world.ended == [LONGEST_MS]


def test_a_connection_that_is_gone_leaves_nothing_behind() -> None:
    world = World()
    world.charge(1000)
    world.run(1500)
    world.mute.cancel()
    world.lease(9 * RATE)
    assert not world.timers and not world.ended
