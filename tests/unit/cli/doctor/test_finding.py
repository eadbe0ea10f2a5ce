"""What an examination says of what it found."""

from __future__ import annotations

import pytest

from tailrace.cli.doctor.finding import (
    State,
    StepFinding,
    TopicState,
    of_certificate,
    of_clock,
    of_quotas,
    of_throttle,
    of_topics,
)

_DAY_MS = 86_400_000
CLIENT = {"user": "alice", "client-id": "billing"}


def topic(replicas: tuple[int, ...], isr: tuple[int, ...], leader: int = 0, least: int = 1) -> StepFinding:
    return of_topics([TopicState("orders", {0: (replicas, isr, leader)}, least)])


@pytest.mark.parametrize(
    ("found", "state", "said"),
    [
        (topic((0, 1), (0, 1)), State.OK, "1 partition of 1 topic: each has a leader"),
        (topic((0, 1), (0,)), State.WARN, "orders-0 has replicas that are not in sync"),
        (topic((0, 1, 2), (0,), least=2), State.FAIL, "orders-0 has fewer in-sync replicas than min.insync.replicas"),
        (topic((0,), (0,), least=2), State.OK, "each has a leader"),
        (topic((0,), (), leader=-1), State.FAIL, "orders-0 has no leader"),
        (of_certificate("h:1", ["h"], 40 * _DAY_MS, 0), State.OK, "valid for 40 more days"),
        (of_certificate("h:1", ["h"], 3 * _DAY_MS, 0), State.WARN, "for h, valid for 3 more days"),
        (of_clock(1_000, 1_900, 5), State.OK, "agree to 900 ms"),
        (of_clock(60_000, 0, 5), State.WARN, "60.0 s ahead of the leader's"),
        (of_clock(0, 60_000, 5), State.WARN, "60.0 s behind the leader's"),
        (of_clock(60_000, 0, 59_000), State.OK, "agree"),
        (of_throttle(0, CLIENT), State.OK, "no answer was held back"),
        (of_throttle(700, CLIENT), State.WARN, "up to 700 ms"),
    ],
)
def test_each_state_is_said_with_what_to_set(found: StepFinding, state: State, said: str) -> None:
    assert found.state is state and said in found.sentence
    assert bool(found.advice) is (state is not State.OK)


def test_the_most_specific_quota_of_a_client_holds() -> None:
    rate = "producer_byte_rate"
    entries: list[tuple[dict[str, str | None], dict[str, float]]] = [
        ({"client-id": None}, {rate: 1}),
        ({"client-id": "billing"}, {rate: 2}),
        ({"user": None}, {rate: 3, "request_percentage": 50}),
        ({"user": "alice"}, {rate: 4}),
        ({"user": "alice", "client-id": None}, {rate: 5}),
        ({"user": "bob"}, {rate: 6}),
        ({"ip": "10.0.0.1"}, {"connection_creation_rate": 7}),
    ]
    assert of_quotas(entries, {"client-id": "x"}).sentence.endswith(
        "; its user is not known here, and so are no quotas of users"
    )
    order = []
    while (said := of_quotas(entries, CLIENT).sentence) != "no quota holds for user alice, client-id billing":
        order.append(said.partition(" hold ")[2])
        value = float(order[-1].partition(" ")[2].partition(",")[0])
        entries = [(entity, values) for entity, values in entries if values.get(rate) != value]
    assert order == [
        *(f"{rate} {value}, request_percentage 50" for value in (5, 4, 3)),
        *(f"{rate} {value}" for value in (2, 1)),
    ]
