"""What holds for every split, and for every order in which gateways ask the lease table."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tailrace.quota.entity import Account, ClientQuotas, QuotaKind
from tailrace.quota.leases import CREDIT_MS, FLOOR, HELD_LEASES, Demand, LeaseTable
from tailrace.quota.split import split

LEASE_MS = 500.0
ACCOUNT: Account = (("client-id", "app"),)
NEAR = 1 + 1e-9
rates = st.floats(1, 1e12)
needs = st.lists(st.floats(0, 1e12), min_size=1, max_size=8)


def quotas(rate: float) -> ClientQuotas:
    return ClientQuotas({ACCOUNT: {"producer_byte_rate": rate}})


@given(rates, needs)
def test_the_shares_add_up_to_the_rate_and_none_is_below_the_floor(rate: float, needs: list[float]) -> None:
    floor = FLOOR * rate / len(needs)
    shares = split(rate, needs, floor)
    assert rate / NEAR <= sum(shares) <= rate * NEAR
    assert min(shares) >= floor / NEAR


@given(rates, needs)
def test_whoever_needs_no_more_than_an_even_share_gets_what_it_needs(rate: float, needs: list[float]) -> None:
    for need, share in zip(needs, split(rate, needs, 0.0), strict=True):
        assert share * NEAR >= min(need, rate / len(needs))


@given(rates, needs)
def test_a_larger_need_never_gets_a_smaller_share(rate: float, needs: list[float]) -> None:
    shares = [share for _, share in sorted(zip(needs, split(rate, needs, 0.0), strict=True))]
    assert all(one <= other * NEAR for one, other in pairwise(shares))


@given(rates, needs)
def test_what_one_gateway_alone_needs_it_gets(rate: float, needs: list[float]) -> None:
    alone = [10 * rate, *(0.0 for _ in needs)]
    assert split(rate, alone, 0.0)[0] * NEAR >= rate


asks = st.lists(
    st.tuples(
        st.integers(0, 3),  # the gateway
        st.floats(0, 1000),  # ms since the last one
        st.sampled_from([0.0, 0.1, 0.3, 1.0, 5.0]),  # its need, in rates
        st.floats(0, 2),  # what ran over, in seconds of the rate
    ),
    max_size=40,
)


@given(rates, st.integers(1, 4), asks)
def test_leases_never_add_up_to_more_than_the_rate_and_its_floor(
    rate: float, gateways: int, asks: list[tuple[int, float, float, float]]
) -> None:
    table, now_ms = LeaseTable(LEASE_MS, 10, -LEASE_MS), 0.0
    held: dict[int, tuple[float, float]] = {}  # rate and end of each gateway's lease
    for chosen, pause_ms, need, unused in asks:
        now_ms += pause_ms
        gateway = chosen % gateways
        demand = Demand(ACCOUNT, QuotaKind.PRODUCE, need * rate, 0.0, unused * rate)
        (grant,) = table.acquire((gateway, "i"), [demand], quotas(rate), range(gateways), now_ms)
        held[gateway] = (grant.rate, now_ms + HELD_LEASES * LEASE_MS)
        leased = sum(lease for lease, until_ms in held.values() if until_ms > now_ms)
        assert leased <= rate * (1 + FLOOR) * NEAR
        assert grant.credit <= rate * CREDIT_MS / 1000 * NEAR


@given(rates, st.integers(1, 4), asks)
def test_what_is_given_is_never_more_than_the_rate_over_the_time_and_what_was_saved(
    rate: float, gateways: int, asks: list[tuple[int, float, float, float]]
) -> None:
    """All that may pass: the leases for as long as they run, and the credits less what was given back."""
    table, now_ms = LeaseTable(LEASE_MS, 10, -LEASE_MS), 0.0
    lease = dict.fromkeys(range(gateways), 0.0)
    since_ms = dict.fromkeys(range(gateways), 0.0)
    given_bytes = 0.0
    for chosen, pause_ms, need, unused in asks:
        now_ms += pause_ms
        gateway = chosen % gateways
        earned = lease[gateway] * min(now_ms - since_ms[gateway], HELD_LEASES * LEASE_MS) / 1000
        back = min(unused * rate, earned)  # a gateway gives back no more than it earned
        demand = Demand(ACCOUNT, QuotaKind.PRODUCE, need * rate, 0.0, back)
        (grant,) = table.acquire((gateway, "i"), [demand], quotas(rate), range(gateways), now_ms)
        given_bytes += earned - back + grant.credit
        lease[gateway], since_ms[gateway] = grant.rate, now_ms
    floors = FLOOR * rate * now_ms / 1000
    assert given_bytes <= (rate * (now_ms + CREDIT_MS) / 1000 + floors) * NEAR
