"""Buckets, entities, the split and the lease table, as tables; tests/sim/quota shows them together."""

import math
import weakref

import pytest

from tailrace.quota.bucket import TokenBucket
from tailrace.quota.entity import Account, ClientQuotas, QuotaKind, canonical_ip
from tailrace.quota.leased import ClientMeter, LeasedQuota
from tailrace.quota.leased_bucket import IDLE_REPORTS, INT_MAX, Terms
from tailrace.quota.leases import CREDIT_MS, FLOOR, HELD_LEASES, Demand, Grant, LeaseTable
from tailrace.quota.split import split

LEASE_MS = 500.0
RATE = 1000.0
PRODUCE, FETCH = QuotaKind.PRODUCE, QuotaKind.FETCH
USER = "ANONYMOUS"
ACCOUNT: Account = (("client-id", "app"),)
APP = ClientQuotas({(("client-id", "app"),): {"producer_byte_rate": RATE}})
OPEN = ClientQuotas()


# -- the bucket ----------------------------------------------------------------------------------------------------


def test_a_bucket_begins_empty_and_goes_into_debt() -> None:
    bucket = TokenBucket(rate=1000, burst=500, now_ms=0)
    assert bucket.charge(200, 0) == -200
    assert bucket.charge(0, 100) == -100
    assert bucket.debt(100) == 100
    assert bucket.charge(0, 200) == 0


def test_a_bucket_fills_to_its_burst_and_tells_what_ran_over() -> None:
    bucket = TokenBucket(rate=1000, burst=500, now_ms=0)
    assert bucket.charge(0, 2000) == 500
    assert bucket.take_lost(2000) == 1500
    assert bucket.take_lost(2000) == 0


def test_a_bucket_keeps_its_debt_when_the_rate_changes() -> None:
    bucket = TokenBucket(rate=1000, burst=500, now_ms=0)
    bucket.charge(1000, 0)
    bucket.refill_at(rate=2000, burst=1000, now_ms=500)
    assert bucket.debt(500) == 500
    assert bucket.debt(750) == 0


def test_a_clock_that_goes_back_brings_nothing() -> None:
    bucket = TokenBucket(rate=1000, burst=500, now_ms=1000)
    bucket.charge(100, 1000)
    assert bucket.debt(0) == 100
    assert bucket.debt(1050) == 50


# -- entities ------------------------------------------------------------------------------------------------------


ENTITIES: list[tuple[Account, Account]] = [  # (entity, the account it makes) in Kafka's order of precedence
    ((("client-id", "c"), ("user", "u")), (("client-id", "c"), ("user", "u"))),
    ((("client-id", None), ("user", "u")), (("client-id", "c"), ("user", "u"))),
    ((("user", "u"),), (("user", "u"),)),
    ((("client-id", "c"), ("user", None)), (("client-id", "c"), ("user", "u"))),
    ((("client-id", None), ("user", None)), (("client-id", "c"), ("user", "u"))),
    ((("user", None),), (("user", "u"),)),
    ((("client-id", "c"),), (("client-id", "c"),)),
    ((("client-id", None),), (("client-id", "c"),)),
]


@pytest.mark.parametrize("first", range(len(ENTITIES)))
def test_entities_have_kafkas_order_of_precedence(first: int) -> None:
    rates = {entity: {"producer_byte_rate": 100.0 + at} for at, (entity, _) in enumerate(ENTITIES) if at >= first}
    quotas = ClientQuotas(rates)
    account = ENTITIES[first][1]
    assert quotas.of_client("u", "c", PRODUCE) == (account, 100.0 + first)
    assert quotas.of_account(account, PRODUCE) == 100.0 + first
    assert quotas.of_client("u", "c", FETCH) is None


def test_a_client_ids_own_rate_comes_before_the_default_key_by_key() -> None:
    quotas = ClientQuotas(
        {
            (("client-id", None),): {"producer_byte_rate": 10.0, "consumer_byte_rate": 20.0},
            (("client-id", "app"),): {"producer_byte_rate": 5.0, "request_percentage": 50.0},
        }
    )
    assert quotas.of_client("u", "app", PRODUCE) == (ACCOUNT, 5)
    assert quotas.of_client("u", "app", FETCH) == (ACCOUNT, 20)
    assert quotas.of_client("u", "app", QuotaKind.REQUEST) == (ACCOUNT, 500_000)  # microseconds a second
    assert quotas.of_client("u", "other", PRODUCE) == ((("client-id", "other"),), 10)
    assert quotas.of_client("u", "", FETCH) == ((("client-id", ""),), 20)


def test_another_users_quota_is_not_ours() -> None:
    quotas = ClientQuotas({(("user", "v"),): {"producer_byte_rate": 1.0}})
    assert quotas.of_client("u", "c", PRODUCE) is None
    assert quotas and quotas.limited("v", "anything") and not quotas.limited("u", "c")


def test_an_addresss_own_rate_comes_before_the_default() -> None:
    quotas = ClientQuotas(
        {(("ip", "[0:0::1]"),): {"connection_creation_rate": 2.0}, (("ip", None),): {"connection_creation_rate": 9.0}}
    )
    assert quotas.of_ip("::1") == ((("ip", "::1"),), 2000)  # thousandths of a connection
    assert quotas.of_ip("10.0.0.1") == ((("ip", "10.0.0.1"),), 9000)
    assert not quotas  # clients are not watched for it


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("1.2.3", "1.2.0.3"),
        ("1", "0.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("[::1]", "::1"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("fe80::1%eth0", "fe80::1"),
        ("", None),
        (" 1.2.3.4", None),
        ("1.2.3.4 junk", None),
        ("300.1.1.1", None),
        ("kafka.example", None),
        ("::1::", None),
        ("१.1.1.1", None),
    ],
)
def test_an_address_has_one_spelling(text: str, address: str | None) -> None:
    assert canonical_ip(text) == address


def test_without_quotas_nobody_is_limited() -> None:
    assert OPEN.of_client("u", "app", PRODUCE) is None and not OPEN.limited("u", "app")


# -- the split -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needs", "shares"),
    [
        ([], []),
        ([0], [100]),
        ([0, 0], [50, 50]),
        ([1000, 1000], [50, 50]),
        ([20, 1000], [20, 80]),
        ([10, 30, 1000], [10, 30, 60]),
        ([10, 30], [40, 60]),
        ([1e12, 1e12, 20, 10], [35, 35, 20, 10]),
    ],
)
def test_small_needs_are_met_and_large_ones_are_levelled(needs: list[float], shares: list[float]) -> None:
    assert split(100, needs, 0) == pytest.approx(shares)


def test_everybody_gets_the_floor_and_nothing_is_lost() -> None:
    shares = split(100, [0, 1000], 2)
    assert shares == pytest.approx([2, 98])
    assert split(1, [0, 0], 2) == [2, 2]


# -- the service's side --------------------------------------------------------------------------------------------


def table() -> LeaseTable:
    return LeaseTable(LEASE_MS, max_entries=2, now_ms=-LEASE_MS)


def ask(
    leases: LeaseTable, gateway: int, need: float, now_ms: float, unused: float = 0.0, live: range = range(2)
) -> Grant:
    demand = Demand(ACCOUNT, PRODUCE, need, 0.0, unused)
    (grant,) = leases.acquire((gateway, "i"), [demand], APP, live, now_ms)
    return grant


def test_one_gateway_alone_gets_the_whole_rate() -> None:
    assert ask(table(), 0, need=5000, now_ms=0).rate == RATE


def test_a_newcomer_gets_the_floor_until_the_other_gave_way() -> None:
    leases = table()
    ask(leases, 0, need=5000, now_ms=0)
    assert ask(leases, 1, need=5000, now_ms=10).rate == pytest.approx(FLOOR * RATE / 2)
    assert ask(leases, 0, need=5000, now_ms=250).rate == pytest.approx(RATE / 2)
    assert ask(leases, 1, need=5000, now_ms=260).rate == pytest.approx(RATE / 2)
    assert leases.leased(ACCOUNT, PRODUCE, 260) <= RATE * (1 + FLOOR)


def test_a_lease_given_back_is_free_at_once() -> None:
    leases = table()
    ask(leases, 0, need=5000, now_ms=0)
    ask(leases, 0, need=0, now_ms=100)
    assert ask(leases, 1, need=5000, now_ms=110).rate == RATE


def test_a_silent_gateways_lease_stays_booked_because_it_may_still_be_in_use() -> None:
    leases = table()
    ask(leases, 0, need=5000, now_ms=0)
    for now_ms in range(100, int(HELD_LEASES * LEASE_MS), 250):
        assert ask(leases, 1, need=5000, now_ms=now_ms).rate < RATE / 10
    assert ask(leases, 1, need=5000, now_ms=HELD_LEASES * LEASE_MS).rate == RATE


def test_a_dead_gateways_lease_is_free_at_once() -> None:
    leases = table()
    ask(leases, 0, need=5000, now_ms=0)
    assert ask(leases, 1, need=5000, now_ms=10, live=range(1, 2)).rate == RATE


def test_what_ran_over_at_one_gateway_is_credit_for_another() -> None:
    leases = table()
    ask(leases, 0, need=500, now_ms=0)
    ask(leases, 1, need=500, now_ms=0)
    ask(leases, 0, need=10, now_ms=250, unused=100)
    assert ask(leases, 1, need=5000, now_ms=250).credit >= 100


def test_credit_is_bounded() -> None:
    leases = table()
    ask(leases, 0, need=500, now_ms=0, unused=1e9)
    assert ask(leases, 0, need=1e9, now_ms=250, unused=1e9).credit == pytest.approx(RATE * CREDIT_MS / 1000)


def test_a_service_that_just_started_gives_no_more_than_an_even_share() -> None:
    leases = LeaseTable(LEASE_MS, 10, now_ms=0)
    assert ask(leases, 0, need=5000, now_ms=10).rate == RATE / 2
    assert ask(leases, 0, need=5000, now_ms=LEASE_MS).rate == RATE


def test_a_client_without_quota_is_not_limited() -> None:
    (grant,) = table().acquire((0, "i"), [Demand((("client-id", "other"),), PRODUCE, 1.0)], APP, [0], 0)
    assert not grant.limited


def test_above_the_bound_a_client_gets_an_even_share_and_is_not_remembered() -> None:
    leases = table()
    quotas = ClientQuotas({(("client-id", None),): {"producer_byte_rate": RATE}})
    demands = [Demand((("client-id", f"c{i}"),), PRODUCE, 5000.0) for i in range(3)]
    grants = leases.acquire((0, "i"), demands, quotas, [0, 1], 0)
    assert [grant.rate for grant in grants] == [RATE, RATE, RATE / 2]
    assert len(leases) == 2


def test_forgotten_clients_are_swept() -> None:
    leases = table()
    ask(leases, 0, need=5000, now_ms=0)
    leases.acquire((0, "i"), [], APP, [0], 100 * LEASE_MS)
    assert len(leases) == 0


# -- the gateway's side --------------------------------------------------------------------------------------------


def leased(unavailable: str = "last", gateways: int = 2, max_entries: int = 10) -> LeasedQuota:
    quota = LeasedQuota(Terms(LEASE_MS, unavailable, max_throttle_ms=1500, window_ms=1000), max_entries)
    quota.update(APP, gateways, 0)
    return quota


def give(quota: LeasedQuota, rate: float, now_ms: float, credit: float = 0.0) -> None:
    quota.granted([Grant(ACCOUNT, PRODUCE, True, rate, credit)], LEASE_MS, now_ms, now_ms)


def pending_throttle_ms(quota: LeasedQuota, now_ms: float) -> float:
    """How long a connection waits whose charge was the last."""
    meter = quota.meter(USER, "app", now_ms)
    meter.charge(PRODUCE, 1e-9, now_ms)
    return round(meter.take_pending_throttle(1e9, lambda: now_ms).wait_ms() / 10) * 10


def test_a_client_without_quota_is_never_throttled_and_costs_nothing() -> None:
    quota = leased()
    meter = quota.meter(USER, "other", 0)
    assert not meter.produce_limited and not meter.fetch_limited
    assert meter.charge(PRODUCE, 1e9, 0) == 0
    assert meter.window_bytes(FETCH, 0) == 2**31 - 1
    assert quota.active == 0


def test_the_first_request_is_charged_at_an_even_share_and_asks_for_a_lease() -> None:
    quota = leased()
    asked = []
    quota.on_wanted = lambda: asked.append(True)
    assert quota.meter(USER, "app", 0).charge(PRODUCE, 100, 0) == 100
    assert pending_throttle_ms(quota, 0) == 200
    assert asked and quota.active == 1


def test_a_throttle_is_the_debt_at_the_leases_rate() -> None:
    quota = leased()
    meter = quota.meter(USER, "app", 0)
    meter.charge(PRODUCE, 100, 0)
    give(quota, RATE, 0)
    assert meter.charge(PRODUCE, 100, 0) == 200
    assert meter.charge(PRODUCE, 0, 200) == 0


def test_a_throttle_is_told_by_the_whole_rate_and_ends_when_the_lease_has_paid() -> None:
    quota = leased()
    meter = quota.meter(USER, "app", 0)
    meter.charge(PRODUCE, 0, 0)
    give(quota, 100, 0)
    assert meter.charge(PRODUCE, 100, 0) == 100
    assert pending_throttle_ms(quota, 100) == 900
    give(quota, RATE, 200)
    assert pending_throttle_ms(quota, 200) == 80


def test_a_connection_waits_for_what_was_charged_until_its_turn_and_not_for_what_came_after() -> None:
    now_ms = 0.0
    quota = leased(gateways=1)
    meter = quota.meter(USER, "app", 0)
    meter.charge(PRODUCE, 100, 0)
    first = meter.take_pending_throttle(1500, lambda: now_ms)
    meter.charge(PRODUCE, 300, 0)
    second = meter.take_pending_throttle(1500, lambda: now_ms)
    assert (first.wait_ms(), second.wait_ms()) == (100, 400)
    now_ms = 100
    assert (first.wait_ms(), second.wait_ms()) == (0, 300)
    assert first.join(second).wait_ms() == 300


def test_nobody_waits_longer_than_the_longest_throttle() -> None:
    now_ms = 0.0
    meter = leased().meter(USER, "app", 0)
    meter.charge(PRODUCE, 1e9, 0)
    pending_throttle = meter.take_pending_throttle(1500, lambda: now_ms)
    assert pending_throttle.wait_ms() == 1500
    now_ms = 1500
    assert pending_throttle.wait_ms() == 0


def test_whoever_waits_hears_of_more_and_of_the_end_of_the_quota() -> None:
    heard: list[str] = []
    quota = leased()
    meter = quota.meter(USER, "app", 0)
    meter.charge(PRODUCE, 500, 0)
    pending_throttle = meter.take_pending_throttle(1500, lambda: 0.0)

    def again() -> None:
        heard.append("again")

    pending_throttle.watch(again)
    give(quota, RATE / 2, 0)
    assert not heard  # no more than before
    give(quota, RATE, 0)
    quota.update(ClientQuotas({(("client-id", "app"),): {"producer_byte_rate": 2 * RATE}}), 2, 0)
    assert len(heard) == 2 and pending_throttle.wait_ms() == 250
    quota.update(OPEN, 2, 0)
    assert len(heard) == 3 and pending_throttle.wait_ms() == 0
    pending_throttle.unwatch(again)
    quota.update(APP, 2, 0)
    assert len(heard) == 3


def test_a_lease_that_changes_is_reported_twice_as_often() -> None:
    quota = leased()
    meter = quota.meter(USER, "app", 0)
    meter.charge(PRODUCE, 5000, 0)
    give(quota, RATE / 2, 0)
    assert len(quota.demands(0)) == 1
    give(quota, RATE, 0)  # much more than before
    assert len(quota.demands(LEASE_MS / 4)) == 1
    give(quota, RATE, LEASE_MS / 4)
    assert quota.demands(LEASE_MS / 2) == []
    assert len(quota.demands(3 * LEASE_MS / 4)) == 1


def test_a_report_without_answer_is_due_at_once() -> None:
    quota = leased()
    quota.meter(USER, "app", 0).charge(PRODUCE, 5000, 0)
    quota.unanswered(quota.demands(0))
    assert len(quota.demands(0)) == 1


def test_whoever_gave_its_lease_back_asks_with_its_next_request() -> None:
    quota = leased()
    meter = quota.meter(USER, "app", 0)
    meter.charge(PRODUCE, 10, 0)
    now_ms = 0.0
    for _ in range(IDLE_REPORTS + 2):
        now_ms += LEASE_MS / 2
        quota.demands(now_ms)
        give(quota, RATE, now_ms)  # runs longer than the client is idle
    assert not quota.demands(now_ms)
    meter.charge(PRODUCE, 10, now_ms + 1)
    assert quota.active == 1


def test_a_throttle_has_an_upper_bound() -> None:
    assert leased().meter(USER, "app", 0).charge(PRODUCE, 1e9, 0) == 1500


def test_credit_pays_debt() -> None:
    quota = leased()
    meter = quota.meter(USER, "app", 0)
    meter.charge(PRODUCE, 100, 0)
    give(quota, RATE, 0, credit=60)
    assert meter.charge(PRODUCE, 0, 0) == 40


@pytest.mark.parametrize(("policy", "throttle_ms"), [("last", 50), ("open", 0), ("closed", 1500)])
def test_without_the_quota_service_the_policy_holds(policy: str, throttle_ms: int) -> None:
    quota = leased(policy)
    meter = quota.meter(USER, "app", 0)
    meter.charge(PRODUCE, 0, 0)
    give(quota, RATE, 0)
    assert meter.charge(PRODUCE, 150, LEASE_MS) == throttle_ms
    give(quota, RATE, 10 * LEASE_MS)
    assert meter.charge(PRODUCE, 1300, 10 * LEASE_MS) >= 1200  # healed: charged, by the lease's rate
    give(quota, RATE, 10 * LEASE_MS + 1450)
    assert meter.charge(PRODUCE, 0, 10 * LEASE_MS + 1450) == 0


def test_an_idle_client_gives_its_lease_back_and_starts_without_savings() -> None:
    quota = leased()
    meter = quota.meter(USER, "app", 0)
    meter.charge(PRODUCE, 10, 0)
    give(quota, RATE, 0)
    reports = [quota.demands(250 * i)[0] for i in range(1, IDLE_REPORTS + 2)]
    assert [report.used for report in reports[:2]] == [10, 0]
    needs = [report.rate for report in reports]
    assert needs == sorted(needs, reverse=True) and needs[-1] == 0 < needs[-2]
    assert quota.active == 0 and quota.demands(9000) == []
    assert meter.charge(PRODUCE, 100, 10_000) == 100  # starts without savings


def test_a_client_that_is_held_back_asks_for_more_than_it_used() -> None:
    quota = leased()
    meter = quota.meter(USER, "app", 0)
    meter.charge(PRODUCE, 100, 0)
    give(quota, 400, 0)
    (demand,) = quota.demands(250)
    assert demand.rate > 2 * demand.used * 4
    meter.charge(PRODUCE, 10, 400)
    (demand,) = quota.demands(500)
    assert demand.rate < 2 * RATE


def test_a_client_below_its_rate_asks_for_what_it_uses_with_some_headroom() -> None:
    quota = leased()
    meter = quota.meter(USER, "app", 0)
    meter.charge(PRODUCE, 0, 0)
    give(quota, RATE, 0)
    meter.charge(PRODUCE, 20, 100)
    (demand,) = quota.demands(250)
    assert demand.rate == pytest.approx(20 * 4 * 1.25)
    assert demand.unused > 0


def test_a_report_without_answer_is_said_again() -> None:
    quota = leased()
    meter = quota.meter(USER, "app", 0)
    meter.charge(PRODUCE, 20, 100)
    give(quota, RATE, 100)
    first = quota.demands(500)
    quota.unanswered(first)
    (again,) = quota.demands(500)
    assert (again.used, again.unused) == (20, first[0].unused)
    assert again.unused > 0


def test_a_changed_quota_holds_at_once_and_keeps_each_gateways_part() -> None:
    quota = leased()
    meter = quota.meter(USER, "app", 0)
    meter.charge(PRODUCE, 0, 0)
    give(quota, 250, 0)
    quota.update(ClientQuotas({(("client-id", "app"),): {"producer_byte_rate": 4 * RATE}}), 2, 0)
    assert meter.buckets[PRODUCE].rate == 1000
    quota.update(OPEN, 2, 0)
    assert not meter.produce_limited and quota.active == 0
    quota.update(ClientQuotas({(("client-id", None),): {"consumer_byte_rate": 7.0}}), 2, 0)
    assert meter.fetch_limited and not meter.produce_limited


def test_fetches_asked_at_once_share_what_the_window_holds() -> None:
    quota = leased()
    quota.update(ClientQuotas({(("client-id", "app"),): {"consumer_byte_rate": 64 * RATE}}), 2, 0)
    meter = quota.meter(USER, "app", 0)
    assert meter.window_bytes(FETCH, 0) == 32 * RATE
    assert [meter.window_bytes(FETCH, 0) for _ in range(3)] == [RATE, RATE, RATE]
    assert meter.window_bytes(FETCH, 1000) == 29 * RATE  # 35 were asked, 32 of them are earned by now


@pytest.mark.parametrize(("policy", "window"), [("last", 64 * RATE), ("open", INT_MAX), ("closed", 0.64 * RATE)])
def test_without_the_quota_service_fetches_are_cut_by_the_policy(policy: str, window: float) -> None:
    quota = leased(policy)
    quota.update(ClientQuotas({(("client-id", "app"),): {"consumer_byte_rate": 64 * RATE}}), 2, 0)
    meter = quota.meter(USER, "app", 0)
    meter.charge(FETCH, 1, 0)
    quota.granted([Grant(ACCOUNT, FETCH, True, 64 * RATE)], LEASE_MS, 0, 0)
    meter.charge(FETCH, 1, LEASE_MS)
    assert meter.window_bytes(FETCH, LEASE_MS) == int(window)


def test_who_reconnects_finds_the_old_debt() -> None:
    quota = leased()
    meter: ClientMeter | None = quota.meter(USER, "app", 0)
    assert meter is not None
    meter.charge(PRODUCE, 500, 0)
    meter = None
    assert quota.meter(USER, "app", 0).charge(PRODUCE, 0, 0) == 500


def test_the_number_of_leases_is_bounded_and_the_oldest_comes_back_with_its_next_request() -> None:
    quota = leased(max_entries=2)
    quota.update(ClientQuotas({(("client-id", None),): {"producer_byte_rate": RATE}}), 1, 0)
    meters = [quota.meter(USER, f"c{i}", 0) for i in range(3)]
    for meter in meters:
        meter.charge(PRODUCE, 100, 0)
    assert [demand.account[0][1] for demand in quota.demands(1)] == ["c1", "c2"]
    meters[0].charge(PRODUCE, 100, LEASE_MS)
    assert [demand.account[0][1] for demand in quota.demands(LEASE_MS)] == ["c2", "c0"]


def test_meters_that_nobody_uses_are_forgotten() -> None:
    quota = leased()
    meters = [weakref.ref(quota.meter(USER, f"c{i}", 0)) for i in range(100)]
    assert sum(meter() is not None for meter in meters) <= 1


# -- users and addresses -------------------------------------------------------------------------------------------


def test_all_client_ids_of_a_user_share_the_users_rate() -> None:
    quota = leased()
    quota.update(ClientQuotas({(("user", USER),): {"producer_byte_rate": RATE}}), 1, 0)
    one, other = quota.meter(USER, "one", 0), quota.meter(USER, "other", 0)
    assert one.charge(PRODUCE, 100, 0) == 100
    assert other.charge(PRODUCE, 100, 0) == 200
    assert [demand.account for demand in quota.demands(250)] == [(("user", USER),)]


def test_a_more_exact_entity_takes_its_client_out_of_the_users_account() -> None:
    quota = leased()
    users: dict[Account, dict[str, float]] = {(("user", USER),): {"producer_byte_rate": RATE}}
    quota.update(ClientQuotas(users), 1, 0)
    meter = quota.meter(USER, "one", 0)
    meter.charge(PRODUCE, 500, 0)
    both: Account = (("client-id", "one"), ("user", USER))
    quota.update(ClientQuotas({**users, both: {"producer_byte_rate": 2 * RATE}}), 1, 0)
    assert meter.buckets[PRODUCE].account == both
    assert meter.charge(PRODUCE, 100, 0) == 50
    quota.update(ClientQuotas(users), 1, 100)
    assert meter.charge(PRODUCE, 0, 100) == 400  # the old debt is found again


def test_connections_of_an_address_have_a_burst_of_a_second_and_then_the_rate() -> None:
    quota = leased()
    quota.update(ClientQuotas({(("ip", None),): {"connection_creation_rate": 4.0}}), 1, 0)
    assert [quota.admit("10.0.0.1", 0) for _ in range(6)] == [0, 0, 0, 0, 0, 250]
    assert quota.admit("10.0.0.2", 0) == 0
    assert [quota.admit("10.0.0.1", 250), quota.admit("10.0.0.1", 250)] == [0, 250]


def test_a_refused_connection_is_not_charged() -> None:
    quota = leased()
    quota.update(ClientQuotas({(("ip", "10.0.0.1"),): {"connection_creation_rate": 1.0}}), 1, 0)
    assert [quota.admit("10.0.0.1", 0) for _ in range(50)][-1] == 1000
    assert quota.admit("10.0.0.1", 1000) == 0
    assert quota.admit("10.0.0.9", 0) == 0


def test_with_the_scope_of_a_broker_each_broker_has_the_whole_rate() -> None:
    """quota.scope=broker: as Apache Kafka, where brokers do not know of each other."""
    quota = LeasedQuota(Terms(LEASE_MS, "last", 15_000, 1000), 10)
    quota.update(ClientQuotas({(("user", None),): {"producer_byte_rate": RATE}}), 1, 0)
    at_0, at_1 = (quota.meter(USER, "app", 0, broker_id) for broker_id in (0, 1))
    assert at_0.charge(QuotaKind.PRODUCE, 2 * RATE, 0) == 2000
    another = quota.meter(USER, "another", 0, 0)
    assert another.charge(QuotaKind.PRODUCE, 0, 0) == 2000  # the user's, at that broker
    assert at_1.charge(QuotaKind.PRODUCE, RATE, 0) == 1000
    accounts = [demand.account for demand in quota.demands(0)]
    assert accounts == [(("broker", "0"), ("user", USER)), (("broker", "1"), ("user", USER))]
    quota.update(ClientQuotas({(("user", USER),): {"producer_byte_rate": 4 * RATE}}), 1, 0)
    assert [meter.buckets[QuotaKind.PRODUCE].limit for meter in (at_0, at_1)] == [4 * RATE] * 2
    quota.update(ClientQuotas(), 1, 0)
    assert not at_0.produce_limited and quota.active == 0


def test_with_the_scope_of_a_broker_addresses_open_connections_to_each() -> None:
    quota = LeasedQuota(Terms(LEASE_MS, "last", 15_000, 1000), 10)
    quota.update(ClientQuotas({(("ip", None),): {"connection_creation_rate": 1.0}}), 1, 0)
    refused = [quota.admit("10.0.0.1", 0, 0) for _ in range(4)]
    assert refused[0] == 0 and refused[-1] > 0
    assert quota.admit("10.0.0.1", 0, 1) == 0


# -- room: what is charged without a look at the clock -------------------------------------------------------------


def roomy() -> tuple[LeasedQuota, ClientMeter]:
    """A client that was idle for a burst: 100 bytes lie in its bucket at 200 ms."""
    quota = leased()
    meter = quota.meter(USER, "app", 0)
    meter.charge(PRODUCE, 0, 0)
    give(quota, RATE, 0)
    assert meter.charge(PRODUCE, 0, 200) == 0
    return quota, meter


def test_a_charge_that_the_last_one_left_room_for_asks_no_clock() -> None:
    _, meter = roomy()
    assert meter.charge(PRODUCE, 60, math.nan) == 0
    assert meter.charge(PRODUCE, 30, math.nan) == 0
    # 90 of the 100 are taken, and nothing was earned since
    assert meter.charge(PRODUCE, 60, 200) == 50


def test_what_was_taken_of_the_room_is_reported_and_leaves_a_debt_like_any_other() -> None:
    quota, meter = roomy()
    meter.charge(PRODUCE, 60, math.nan)
    (demand,) = quota.demands(200)
    assert demand.used == 60
    assert meter.charge(PRODUCE, 90, 200) == 50
    assert pending_throttle_ms(quota, 200) == 50


def test_room_is_shared_by_all_that_are_counted_together() -> None:
    quota = leased(gateways=1)
    quota.update(ClientQuotas({(("user", USER),): {"producer_byte_rate": RATE}}), 1, 0)
    first, second = (quota.meter(USER, name, 0) for name in ("one", "two"))
    first.charge(PRODUCE, 0, 0)
    first.charge(PRODUCE, 0, 200)
    first.charge(PRODUCE, 60, math.nan)
    assert second.charge(PRODUCE, 60, 200) == 20


def test_room_ends_with_the_quota_that_it_is_of() -> None:
    quota, meter = roomy()
    quota.update(ClientQuotas({ACCOUNT: {"producer_byte_rate": RATE / 10}}), 1, 200)
    assert meter.charge(PRODUCE, 60, 200) > 0


def test_what_one_connection_took_too_much_is_the_debt_of_the_next() -> None:
    quota = LeasedQuota(Terms(LEASE_MS, "last", 15_000, 1000), 10)
    quota.update(APP, 1, 0)
    assert quota.meter(USER, "app", 0).debt(0) == 0
    throttle_time_ms = quota.meter(USER, "app", 0).charge(PRODUCE, 10 * RATE, 0)
    assert quota.meter(USER, "app", 0).debt(0) == throttle_time_ms > 0
    assert quota.meter(USER, "other", 0).debt(0) == 0
    quota.update(OPEN, 1, 0)
    assert quota.meter(USER, "app", 0).debt(0) == 0
