"""What limited clients use: rates of the last seconds, totals, and who is held back now."""

import pytest

from tailrace.quota.entity import Account, ClientQuotas, QuotaKind
from tailrace.quota.leased import LeasedQuota
from tailrace.quota.leased_bucket import Terms
from tailrace.quota.leases import Demand
from tailrace.quota.usage import Usage

APP: Account = (("client-id", "app"),)
OTHER: Account = (("client-id", "other"),)
QUOTAS = ClientQuotas(
    {
        (("client-id", None),): {"producer_byte_rate": 1000.0, "request_percentage": 50.0},
        (("ip", None),): {"connection_creation_rate": 10.0},
    }
)


def demand(account: Account = APP, kind: QuotaKind = QuotaKind.PRODUCE, used: float = 0.0, **told: float) -> Demand:
    return Demand(account, kind, 1.0, used, 0.0, told.get("throttle_time_ms", 0.0), told.get("debt_ms", 0.0))


@pytest.mark.parametrize("seconds", [2, 5, 30])
def test_a_steady_client_is_shown_at_its_rate_from_the_first_seconds_on(seconds: int) -> None:
    usage = Usage(10)
    for tick in range(seconds * 4 + 1):
        usage.report([demand(used=250.0 if tick else 0.0)], 250.0 * tick)
    (row,) = usage.rows(QUOTAS, 250.0 * seconds * 4)
    assert (row.key, row.limit, row.total) == ("producer_byte_rate", 1000.0, 1000.0 * seconds)
    assert row.rate == pytest.approx(1000.0, rel=0.05) and row.share == pytest.approx(1.0, rel=0.05)


def test_reports_of_several_gateways_add_up_and_a_silent_client_fades_and_is_forgotten() -> None:
    usage = Usage(10)
    for tick in range(80):
        usage.report([demand(used=100.0)], 250.0 * tick)
        usage.report([demand(used=50.0)], 250.0 * tick)
    assert usage.rows(QUOTAS, 20_000)[0].rate == pytest.approx(600.0, rel=0.05)
    assert usage.rows(QUOTAS, 30_000)[0].rate < 100.0
    assert usage.rows(QUOTAS, 90_000) == [] and len(usage) == 0


def test_units_are_those_of_the_quotas_keys() -> None:
    usage = Usage(10)
    ip: Account = (("ip", "10.0.0.1"),)
    for tick in range(41):
        used = [demand(kind=QuotaKind.REQUEST, used=62_500.0), demand(ip, QuotaKind.CONNECTION, 1000.0)]
        usage.report(used, 250.0 * tick)
    found = {row.key: row for row in usage.rows(QUOTAS, 10_000)}
    assert found["request_percentage"].rate == pytest.approx(25.0, rel=0.1)  # a quarter of a core
    assert found["connection_creation_rate"].rate == pytest.approx(4.0, rel=0.1)
    assert found["connection_creation_rate"].limit == 10.0 and found["connection_creation_rate"].total == 41.0


def test_who_is_throttled_is_so_until_its_debt_is_paid() -> None:
    usage = Usage(10)
    usage.report([demand(used=9000.0, throttle_time_ms=700.0, debt_ms=700.0), demand(OTHER, used=1.0)], 0.0)
    first, second = usage.rows(QUOTAS, 100.0)
    assert (first.account, first.throttled, first.throttle_time_ms) == (APP, True, 700.0)
    assert (second.account, second.throttled) == (OTHER, False)
    usage.report([demand(used=9000.0, throttle_time_ms=700.0, debt_ms=1700.0)], 800.0)
    assert usage.rows(QUOTAS, 2499.0)[0].throttled
    assert not any(row.throttled for row in usage.rows(QUOTAS, 2501.0))


def test_who_is_throttled_over_and_over_is_so_between_two_requests_too() -> None:
    """A client at its rate with small requests owes nothing at most of the moments in which it reports."""
    usage = Usage(10)
    for tick in range(5):
        usage.report([demand(used=250.0, throttle_time_ms=40.0 if tick % 2 else 0.0, debt_ms=0.0)], 250.0 * tick)
    assert usage.rows(QUOTAS, 1000.0)[0].throttled
    assert not usage.rows(QUOTAS, 1800.0)[0].throttled


def test_an_account_without_a_quota_is_not_shown_and_the_oldest_are_forgotten() -> None:
    usage = Usage(3)
    for number in range(5):
        usage.report([demand((("client-id", str(number)),), used=1.0)], 10.0 * number)
    assert {row.account[0][1] for row in usage.rows(QUOTAS, 50.0)} == {"2", "3", "4"}
    assert usage.rows(ClientQuotas(), 50.0) == [] and len(usage) == 0


def test_a_bucket_reports_the_throttles_that_it_gave_once() -> None:
    leased = LeasedQuota(Terms(500, "last", 15_000, 1000), 10)
    leased.update(QUOTAS, 1, 0)
    meter = leased.meter("", "app", 0)
    throttles = [meter.charge(QuotaKind.PRODUCE, 500, 0), meter.charge(QuotaKind.PRODUCE, 500, 0)]
    (told,) = leased.demands(100)
    assert throttles == [500, 1000] and told.throttle_time_ms == 1500 and told.debt_ms == pytest.approx(900)
    leased.unanswered([told])
    (again,) = leased.demands(200)
    assert again.throttle_time_ms == 1500
    (after,) = leased.demands(450)
    assert after.throttle_time_ms == 0
