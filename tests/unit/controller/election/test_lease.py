"""When a contender may take the lease, and how long a holder trusts in it: as functions of what was read when."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tailrace_controller.election.lease import RENEWALS_PER_LEASE, STAND_BACK_LEASES, Judge, Tenure
from tailrace_controller.metadata_log.lease_row import NOBODY, Candidate, Lease

LEASE_MS = 1000.0
HELD = Lease(holder=1, token="b", epoch=4, renewals=9, next_offset=20, address="unix:/b")
ME = Candidate(0, "a")


def test_a_row_that_does_not_change_for_the_lease_time_may_be_taken() -> None:
    judge = Judge(ME, LEASE_MS)
    assert not judge.may_take(HELD, 0, 5)
    assert judge.next_look_ms(5) == LEASE_MS / 2
    assert not judge.may_take(HELD, 1004, 1010)  # unchanged since 5 at the latest
    assert judge.may_take(HELD, 1005, 1011)


def test_any_change_of_the_row_begins_the_lease_time_anew() -> None:
    judge = Judge(ME, LEASE_MS)
    assert not judge.may_take(HELD, 0, 0)
    for changed in (replace(HELD, renewals=10), replace(HELD, next_offset=21), replace(HELD, epoch=5)):
        assert not judge.may_take(changed, 5000, 5001)
        assert not judge.may_take(changed, 6000, 6001)
        assert judge.may_take(changed, 6001, 6002)


def test_the_same_node_on_the_same_data_takes_its_lease_at_once_and_another_of_its_id_does_not() -> None:
    assert Judge(Candidate(1, "b"), LEASE_MS).may_take(HELD, 0, 1)
    assert not Judge(Candidate(1, "another directory"), LEASE_MS).may_take(HELD, 0, 1)


def test_a_lease_that_was_given_away_is_anybodys_but_its_givers_for_a_while() -> None:
    free = replace(HELD, holder=NOBODY, token="")
    assert Judge(ME, LEASE_MS).may_take(free, 0, 1)
    giver = Judge(Candidate(1, "b"), LEASE_MS)
    giver.stand_back(100)
    until_ms = 100 + STAND_BACK_LEASES * LEASE_MS
    assert not giver.may_take(free, until_ms - 1, until_ms)
    assert giver.next_look_ms(until_ms - 1) == 1
    assert giver.may_take(free, until_ms, until_ms + 1)


def test_an_exclusive_controller_never_waits() -> None:
    assert Judge(Candidate(0, exclusive=True), LEASE_MS).may_take(HELD, 0, 1)


def test_who_is_active_is_known_for_a_lease_time() -> None:
    judge = Judge(ME, LEASE_MS)
    assert not judge.is_fresh(0)
    judge.may_take(HELD, 0, 10)
    assert judge.is_fresh(1009)
    assert not judge.is_fresh(1010)
    judge.may_take(replace(HELD, holder=NOBODY), 20, 21)
    assert not judge.is_fresh(22)


def test_a_holder_trusts_in_its_lease_until_a_lease_time_after_it_asked() -> None:
    tenure = Tenure(LEASE_MS, asked_ms=100)
    assert tenure.holds(1099)
    assert not tenure.holds(1100)
    tenure.renewed(900)
    assert tenure.holds(1899)
    tenure.renewed(300)  # answers may come in any order
    assert tenure.holds(1899)
    assert tenure.due_ms(900) == LEASE_MS / RENEWALS_PER_LEASE
    assert tenure.due_ms(5000) > 0
    assert Tenure(float("inf"), 0).holds(1e12)


@given(
    waits=st.lists(st.floats(0, 3000), min_size=1, max_size=40),
    took=st.lists(st.floats(0, 1500), min_size=40, max_size=40),
    contender_ahead=st.floats(-1e6, 1e6),
    looks=st.lists(st.tuples(st.floats(0, 400), st.floats(0, 400)), min_size=1, max_size=200),
)
def test_no_contender_takes_a_lease_that_its_holder_still_trusts_in(
    waits: list[float], took: list[float], contender_ahead: float, looks: list[tuple[float, float]]
) -> None:
    """On clocks that run at one rate, whatever they show and however long questions travel."""
    changes: list[float] = [0.0]  # when each renewal was committed, and from when on its holder trusts in it
    asked: list[float] = [0.0]
    for wait, travel in zip(waits, took, strict=False):
        asked.append(changes[-1] + wait)
        changes.append(changes[-1] + wait + travel)
    judge, now = Judge(ME, LEASE_MS), 0.0
    for pause, travel in looks:
        sent, now = now + pause, now + pause + travel
        read = sent + travel / 2
        done = max(index for index, at in enumerate(changes) if at <= read)
        row = replace(HELD, renewals=done)
        if judge.may_take(row, sent + contender_ahead, now + contender_ahead):
            tenure = Tenure(LEASE_MS, asked[done])
            assert not tenure.holds(now)
            return
