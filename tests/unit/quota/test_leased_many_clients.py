"""10,000 limited clients at one gateway: leases are bounded (quota.max.entries), and who is gone leaves nothing."""

from __future__ import annotations

import gc
import tracemalloc

from tailrace.quota.entity import ClientQuotas, QuotaKind
from tailrace.quota.leased import ClientMeter, LeasedQuota
from tailrace.quota.leased_bucket import Terms
from tailrace.quota.leases import LeaseTable

CLIENTS, ENTRIES, LEASE_MS = 10_000, 2000, 500.0
EVERYBODY = ClientQuotas({(("client-id", None),): {"producer_byte_rate": 1000.0, "consumer_byte_rate": 1000.0}})
SAMPLE = 1000  # where memory is counted, which is slow
CONNECTED_BYTES = 3500  # docs/quotas.md: of a connected client with both rates


def limited(entries: int = ENTRIES) -> LeasedQuota:
    quota = LeasedQuota(Terms(LEASE_MS, "last", 15_000, 500), entries)
    quota.update(EVERYBODY, 1, 0)
    return quota


def charge(quota: LeasedQuota, number: int, now_ms: float) -> ClientMeter:
    meter = quota.meter("u", f"client-{number}", now_ms)
    meter.charge(QuotaKind.PRODUCE, 100, now_ms)
    meter.charge(QuotaKind.FETCH, 100, now_ms)
    return meter


def test_leases_are_bounded_however_many_clients_are_connected() -> None:
    quota, table = limited(), LeaseTable(LEASE_MS, ENTRIES, -LEASE_MS)
    connected = [charge(quota, number, 0) for number in range(CLIENTS)]
    for now_ms in (1.0, 126.0, 251.0):
        demands = quota.demands(now_ms)
        assert len(demands) <= ENTRIES
        quota.granted(table.acquire((0, "i"), demands, EVERYBODY, [0], now_ms), LEASE_MS, now_ms, now_ms)
    assert quota.active == len(table) == ENTRIES
    # Whoever has no lease is charged all the same, and gets one with a later request.
    assert connected[0].charge(QuotaKind.PRODUCE, 100, 600) > 0
    assert quota.active == ENTRIES


def test_a_connected_client_costs_what_the_documents_say_and_one_that_left_nothing() -> None:
    quota = limited(entries=SAMPLE // 5)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        connected = [charge(quota, number, 0) for number in range(SAMPLE)]
        each = (tracemalloc.get_traced_memory()[0] - before) / SAMPLE
        connected.clear()
        gc.collect()
        left = (tracemalloc.get_traced_memory()[0] - before) / SAMPLE
    finally:
        tracemalloc.stop()
    assert each <= CONNECTED_BYTES
    assert left <= each / 5 + 400  # leases, and the room of the dictionaries


def test_clients_that_come_and_go_do_not_grow_anything() -> None:
    quota = limited()
    for number in range(CLIENTS):
        charge(quota, number, float(number))
    gc.collect()
    assert quota.active <= ENTRIES and quota.known <= ENTRIES + 1
