"""Shared bookings: one exchange where nobody else wrote, and what a service does with what it finds."""

from __future__ import annotations

from itertools import count

import pytest

from tailrace.quota.entity import Account, ClientQuotas, QuotaKind
from tailrace.quota.leases import HELD_LEASES, Demand, Grant
from tailrace.quota.shared import VERSION_CHARS, ContendedError, MemoryBookings, SharedLeases, booking_of

LEASE_MS = 500.0
RATE = 1000.0
ACCOUNT: Account = (("client-id", "app"),)
QUOTAS = ClientQuotas({ACCOUNT: {"producer_byte_rate": RATE}})
ENTRY = (ACCOUNT, QuotaKind.PRODUCE)


class World:
    def __init__(self, now_ms: float = 100_000.0) -> None:
        self.now_ms = now_ms
        self.versions = count(1)
        self.store = MemoryBookings(lambda: self.now_ms, HELD_LEASES * LEASE_MS)

    def service(self, max_entries: int = 10) -> SharedLeases:
        return SharedLeases(LEASE_MS, max_entries, lambda: f"{next(self.versions):0{VERSION_CHARS}x}")

    def ask(self, service: SharedLeases, gateway: int, need: float = 5000.0, account: Account = ACCOUNT) -> Grant:
        one = service.begin((gateway, "i"), [Demand(account, QuotaKind.PRODUCE, need)], QUOTAS, range(2))
        while not one.take(self.store.exchange(service.since_ms, one.writes(self.now_ms))):
            pass
        (grant,) = one.grants
        return grant

    def begun(self) -> SharedLeases:
        """A service that knows the store, past the grace of its beginning."""
        service = self.service()
        self.ask(service, 0, need=0)
        self.now_ms += LEASE_MS
        return service


def test_a_store_that_begins_gives_no_more_than_an_even_share_for_a_lease() -> None:
    world = World()
    service = world.service()
    assert world.ask(service, 0).rate == RATE / 2
    world.now_ms += LEASE_MS
    assert world.ask(service, 0).rate == RATE


def test_a_service_that_begins_goes_on_with_what_is_stored() -> None:
    world = World()
    first = world.begun()
    assert world.ask(first, 0).rate == RATE
    second = world.service()
    assert world.ask(second, 1).rate < RATE / 10  # the first gateway has it
    assert world.ask(second, 0).rate == RATE / 2


def test_a_round_is_one_exchange_as_long_as_no_other_service_writes() -> None:
    world = World()
    first, second = world.begun(), world.service()
    before = world.store.exchanges
    for _ in range(10):
        world.ask(first, 0)
    assert world.store.exchanges - before == 10
    world.ask(second, 1)
    before = world.store.exchanges
    world.ask(first, 0)
    assert world.store.exchanges - before == 2
    assert world.ask(first, 0).rate + world.ask(second, 1).rate <= RATE * 1.02


def test_a_store_that_was_emptied_learns_what_the_services_know() -> None:
    world = World()
    service = world.begun()
    world.ask(service, 0)
    world.store.lose_all()
    assert world.ask(service, 1).rate < RATE / 10
    booking = booking_of(world.store.texts[ENTRY][0])
    assert booking is not None and len(booking.holdings) == 2


def test_a_client_that_nobody_knows_gets_an_even_share_of_a_store_that_was_emptied() -> None:
    world = World()
    service, other = world.begun(), world.service()
    world.ask(other, 0)
    world.store.lose_all()
    world.ask(service, 1, need=0, account=(("client-id", "else"),))
    service = world.service()
    assert world.ask(service, 1).rate <= RATE / 2


def test_a_replica_that_lost_a_second_gets_the_newer_booking_back() -> None:
    world = World()
    service = world.begun()
    world.ask(service, 0, need=10)
    lost = dict(world.store.texts)
    world.now_ms += LEASE_MS
    world.ask(service, 0)
    world.store.texts = lost
    assert world.ask(service, 1).rate < RATE / 10  # the first gateway's newer lease is not forgotten


def test_what_has_run_out_in_the_store_is_begun_anew_in_one_exchange() -> None:
    world = World()
    service = world.begun()
    world.ask(service, 0)
    world.now_ms += HELD_LEASES * LEASE_MS
    before = world.store.exchanges
    assert world.ask(service, 1).rate == RATE
    assert world.store.exchanges - before == 1


@pytest.mark.parametrize("text", ["x", "0" * VERSION_CHARS, "0" * VERSION_CHARS + "{}", "0" * VERSION_CHARS + "[1,2]"])
def test_a_text_that_is_not_ours_is_written_over(text: str) -> None:
    world = World()
    service = world.begun()
    world.store.texts[ENTRY] = (text, world.now_ms + 1e6)
    assert world.ask(service, 0).rate == RATE


def test_a_client_without_a_quota_is_not_stored() -> None:
    world = World()
    service = world.begun()
    before = dict(world.store.texts)
    assert not world.ask(service, 0, account=(("client-id", "free"),)).limited
    assert world.store.texts == before


def test_what_a_service_remembers_is_bounded() -> None:
    world = World()
    service = world.service(max_entries=2)
    everybody = ClientQuotas({(("client-id", None),): {"producer_byte_rate": RATE}})
    demands = [Demand((("client-id", f"c{i}"),), QuotaKind.PRODUCE, 10.0) for i in range(5)]
    one = service.begin((0, "i"), demands, everybody, [0])
    while not one.take(world.store.exchange(service.since_ms, one.writes(world.now_ms))):
        pass
    assert len(service) == 2 and [grant.account for grant in one.grants] == [demand.account for demand in demands]


def test_a_round_gives_up_when_others_write_each_time() -> None:
    world = World()
    service, other = world.begun(), world.service()
    one = service.begin((0, "i"), [Demand(ACCOUNT, QuotaKind.PRODUCE, 10.0)], QUOTAS, [0])
    with pytest.raises(ContendedError):
        while True:
            writes = one.writes(world.now_ms)
            world.ask(other, 1)
            assert not one.take(world.store.exchange(service.since_ms, writes))


def test_a_clock_that_goes_back_gives_no_negative_credit() -> None:
    world = World()
    service = world.begun()
    world.ask(service, 0)
    world.now_ms -= 1000
    assert world.ask(service, 1).credit >= 0
