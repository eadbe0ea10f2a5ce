"""What a quota costs where requests pass: nothing for others, a charge for its client, and no call to the service."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from support.sessions import session_of
from support.steps import steps
from tailrace.clock import ManualClock
from tailrace.net.quotas.meters import Quotas
from tailrace.quota.entity import ClientQuotas
from tailrace.quota.leased_bucket import Terms
from tailrace_gateway.relay.requests import Requests
from tailrace_gateway.relay.routes import table
from tailrace_gateway.relay.slots import Slots
from unit.gateway.relay.test_requests import fetch, produce, times

MAX_BYTES = 1 << 20
RATE = 1e9
REQUESTS = 100


def passing(limited: str | None, frame: bytes | None = None) -> tuple[Callable[[], None], Requests, list[None]]:
    """Work that passes 100 requests of client `c`, Produce unless another is given, while a quota limits a client; and
    the leases asked for."""
    frame = frame or produce(1, client_id="c")
    clock, asked = ManualClock(), list[None]()
    quotas = Quotas(Terms(500, "last", 15_000, 500), 2000, clock, lambda: 0.0)
    quotas.leased.on_wanted = lambda: asked.append(None)
    if limited is not None:
        quotas.leased.update(
            ClientQuotas({(("client-id", limited),): {"producer_byte_rate": RATE, "consumer_byte_rate": RATE}}), 1, 0
        )
    owed = times()
    session = session_of(meter_of=partial(quotas.meter_of, 0), clock=clock)
    requests = Requests(table(), Slots(), session, MAX_BYTES, MAX_BYTES, owed)
    requests.node_open = True
    view = memoryview(bytearray(frame * REQUESTS))

    def work() -> None:
        consumed, _ = requests.scan(view, len(view))
        assert consumed == len(view)
        owed.answered(len(requests.slots))
        requests.slots.clear()

    requests.scan(memoryview(bytearray(frame)), len(frame))  # asks for the lease, and is told a millisecond
    requests.slots.clear()
    if session.to_be_muted:
        session.mute()
    clock.advance(400)
    work()
    return work, requests, asked


def test_a_client_without_a_quota_pays_nothing_for_the_quotas_of_others() -> None:
    alone, limited = passing(None)[0], passing("somebody")[0]
    assert steps(limited) == steps(alone)


def test_a_charge_takes_a_quarter_of_the_steps_of_the_head_that_it_is_for() -> None:
    unlimited, limited = passing(None)[0], passing("c")[0]
    assert steps(limited) <= 1.25 * steps(unlimited)


def test_a_fetch_of_a_limited_client_is_known_by_its_head_too() -> None:
    unlimited, limited = passing(None, fetch(1))[0], passing("c", fetch(1))[0]
    assert steps(limited) <= 2.5 * steps(unlimited)  # its max_bytes is looked at; a head read anew takes four times


def test_requests_ask_the_quota_service_for_nothing_while_there_is_a_lease() -> None:
    work, requests, asked = passing("c")
    assert requests.session.meter.produce_limited and asked
    asked.clear()
    work()
    assert not asked and not requests.session.throttle_time_ms
