"""ISR, ELR and leader of one partition after each kind of change; the cases follow Kafka's PartitionChangeBuilder."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.metadata import topic_id
from tailrace.metadata.image import PartitionImage
from tailrace.metadata.replay import changed
from tailrace_controller.decide.partition_change import RECOVERED, RECOVERING, Election, Wish, change

ID = topic_id(1)
ALL = frozenset(range(6))


def partition(isr: tuple[int, ...] = (0, 1, 2), leader: int | None = None, **more: Any) -> PartitionImage:
    first = isr[0] if isr else -1
    return PartitionImage(more.pop("replicas", (0, 1, 2)), isr, first if leader is None else leader, 5, 9, **more)


def after(
    before: PartitionImage, wish: Wish, *, live: frozenset[int] = ALL, min_isr: int = 2
) -> tuple[PartitionImage, bool]:
    """The partition after a wish, and whether its leader epoch rose."""
    record = change(ID, 0, before, live, min_isr, wish)
    now = before if record is None else changed(before, record)
    assert now.partition_epoch == before.partition_epoch + (record is not None)
    return now, now.leader_epoch > before.leader_epoch


def test_nothing_changes_where_nothing_is_wished() -> None:
    assert change(ID, 0, partition(), ALL, 2, Wish()) is None


def test_a_shrinking_isr_keeps_leader_and_leader_epoch() -> None:
    now, rose = after(partition(), Wish(isr=(0, 1)))
    assert (now.isr, now.eligible_leader_replicas, now.leader, rose) == ((0, 1), (), 0, False)


def test_who_leaves_an_isr_below_min_isr_is_eligible_until_the_isr_has_grown_again() -> None:
    shrunk, _ = after(partition((0, 1)), Wish(isr=(0,)))
    assert (shrunk.isr, shrunk.eligible_leader_replicas) == ((0,), (1,))
    grown, rose = after(shrunk, Wish(isr=(0, 2)))
    assert (grown.isr, grown.eligible_leader_replicas, rose) == ((0, 2), (), False)


def test_who_leaves_the_replicas_is_not_eligible_for_it_deletes_its_log() -> None:
    now, _ = after(partition(), Wish(replicas=(1, 0, 2), removing_replicas=(0, 2)))
    assert (now.replicas, now.isr, now.eligible_leader_replicas, now.leader) == ((1,), (1,), (), 1)


def test_the_next_replica_of_the_isr_in_replica_order_leads_when_the_leader_goes() -> None:
    now, rose = after(partition((0, 2, 1)), Wish(isr=(2, 1)), live=frozenset({1, 2}))
    assert (now.leader, now.isr, rose) == (1, (2, 1), True)


def test_the_last_one_in_sync_stays_eligible_and_is_remembered_as_leader() -> None:
    now, rose = after(partition((0,), eligible_leader_replicas=(1,)), Wish(isr=()), live=frozenset({2}))
    assert (now.leader, now.isr, now.eligible_leader_replicas, now.last_known_elr) == (-1, (), (0, 1), (0,))
    assert rose


def test_an_eligible_replica_leads_cleanly_when_the_isr_is_empty() -> None:
    offline = partition((), eligible_leader_replicas=(0, 1), last_known_elr=(0,))
    now, _ = after(offline, Wish(), live=frozenset({1}))
    assert (now.leader, now.isr, now.eligible_leader_replicas, now.last_known_elr) == (1, (1,), (0,), ())
    assert now.leader_recovery_state == RECOVERED


def test_an_eligible_replica_does_not_lead_while_somebody_is_in_sync_but_not_live() -> None:
    offline = partition((0,), leader=-1, eligible_leader_replicas=(1,))
    assert change(ID, 0, offline, frozenset({1}), 2, Wish()) is None


def test_the_last_known_leader_returns_uncleanly_when_nobody_is_eligible() -> None:
    offline = partition((), last_known_elr=(1,))
    assert change(ID, 0, offline, frozenset({0, 2}), 2, Wish()) is None
    now, _ = after(offline, Wish(), live=frozenset({0, 1, 2}))
    assert (now.leader, now.isr, now.last_known_elr, now.leader_recovery_state) == (1, (1,), (), RECOVERING)


@pytest.mark.parametrize("elr", [(), (0,)])
def test_an_unclean_election_takes_any_live_replica_and_forgets_who_was_eligible(elr: tuple[int, ...]) -> None:
    offline = partition((), eligible_leader_replicas=elr, last_known_elr=(0,))
    assert change(ID, 0, offline, frozenset({2}), 2, Wish()) is None
    now, _ = after(offline, Wish(Election.UNCLEAN), live=frozenset({2}))
    assert (now.leader, now.isr, now.eligible_leader_replicas, now.last_known_elr) == (2, (2,), (), ())
    assert now.leader_recovery_state == RECOVERING


def test_unclean_elections_prefer_those_in_sync() -> None:
    now, _ = after(partition((0, 2)), Wish(Election.UNCLEAN, isr=(2,)), live=frozenset({1, 2}), min_isr=1)
    assert (now.leader, now.leader_recovery_state) == (2, RECOVERED)


def test_a_broker_that_may_have_lost_records_leaves_isr_and_elr() -> None:
    now, _ = after(partition((0, 1)), Wish(isr=(1,), not_eligible=0), live=frozenset({1, 2}))
    assert (now.leader, now.isr, now.eligible_leader_replicas) == (1, (1,), ())
    elr, _ = after(partition((1,), eligible_leader_replicas=(0, 2)), Wish(isr=(1,), not_eligible=0))
    assert elr.eligible_leader_replicas == (2,)


def test_a_preferred_election_moves_to_the_first_replica_only_if_it_is_in_sync() -> None:
    now, rose = after(partition((1, 0), leader=1), Wish(Election.PREFERRED))
    assert (now.leader, now.isr, rose) == (0, (1, 0), True)
    assert change(ID, 0, partition((1, 2), leader=1), ALL, 2, Wish(Election.PREFERRED)) is None
    assert change(ID, 0, partition((1, 0), leader=1), frozenset({1, 2}), 2, Wish(Election.PREFERRED)) is None


REASSIGNING = partition((0, 1, 2), replicas=(3, 1, 2, 0), adding_replicas=(3,), removing_replicas=(0,))


def test_a_reassignment_is_complete_when_all_that_stay_are_in_sync() -> None:
    waiting, rose = after(REASSIGNING, Wish(isr=(0, 1, 3)))
    assert (waiting.replicas, waiting.isr, rose) == ((3, 1, 2, 0), (0, 1, 3), False)
    done, rose = after(waiting, Wish(isr=(0, 1, 3, 2)))
    assert (done.replicas, done.isr, done.adding_replicas, done.removing_replicas) == ((3, 1, 2), (1, 3, 2), (), ())
    assert (done.leader, rose) == (3, True)  # the leader was removed


def test_a_replica_that_leaves_the_assignment_raises_the_leader_epoch_of_the_leader_that_stays() -> None:
    now, rose = after(partition((0, 1, 2)), Wish(isr=(0, 1), replicas=(0, 1)))
    assert (now.leader, now.replicas, rose) == (0, (0, 1), True)


def test_adding_replicas_raises_no_leader_epoch() -> None:
    now, rose = after(partition(), Wish(replicas=(0, 1, 2, 3), adding_replicas=(3,)))
    assert (now.replicas, now.adding_replicas, rose) == ((0, 1, 2, 3), (3,), False)


def test_a_recovered_leader_says_so() -> None:
    now, rose = after(
        partition((0,), leader_recovery_state=RECOVERING), Wish(isr=(0,), leader_recovery_state=RECOVERED)
    )
    assert (now.leader_recovery_state, rose) == (RECOVERED, False)


SUBSETS = st.permutations([0, 1, 2, 3]).flatmap(lambda order: st.integers(0, 4).map(lambda n: tuple(order[:n])))


@settings(deadline=None)
@given(
    isr=SUBSETS,
    others=SUBSETS,
    last_known=st.sampled_from([(), (0,), (3,)]),
    wished=st.none() | SUBSETS,
    live=st.frozensets(st.sampled_from([0, 1, 2, 3])),
    min_isr=st.integers(1, 4),
    election=st.sampled_from(list(Election)),
    lost=st.sampled_from([-1, 0, 1]),
)
def test_whatever_happens_the_leader_is_live_and_in_sync_and_nobody_is_in_isr_and_elr(
    isr: tuple[int, ...],
    others: tuple[int, ...],
    last_known: tuple[int, ...],
    wished: tuple[int, ...] | None,
    live: frozenset[int],
    min_isr: int,
    election: Election,
    lost: int,
) -> None:
    elr = tuple(sorted(set(others) - set(isr)))
    before = replace(partition(isr, replicas=(0, 1, 2, 3)), eligible_leader_replicas=elr, last_known_elr=last_known)
    live = live - {lost}
    wished = wished if wished is None else tuple(member for member in wished if member != lost)
    if wished is not None and before.leader in live and before.leader not in wished:
        wished = (before.leader, *wished)  # nobody takes a live leader out of the ISR
    record = change(ID, 0, before, live, min_isr, Wish(election, isr=wished, not_eligible=lost))
    now = before if record is None else changed(before, record)
    assert now.leader == -1 or (now.leader in live and now.leader in now.isr)
    assert not set(now.isr) & set(now.eligible_leader_replicas)
    assert len(now.isr) < min_isr or now.eligible_leader_replicas == ()
    assert lost not in now.eligible_leader_replicas or record is None
    assert len(now.last_known_elr) <= 1
    if now.leader == -1:
        trusted = now.isr or now.eligible_leader_replicas
        assert not set(trusted) & live
    if now.leader == before.leader:
        assert now.leader_epoch == before.leader_epoch
