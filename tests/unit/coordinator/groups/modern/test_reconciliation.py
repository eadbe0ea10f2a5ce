"""One member's way to its target assignment: what it keeps, gives up, waits for and gets, state by state."""

from __future__ import annotations

from uuid import UUID

import pytest

from tailrace.errors import ApiError, ErrorCode
from tailrace_coordinator.groups.modern.reconciliation import (
    Current,
    MemberState,
    Target,
    reconcile,
    validate_state,
)

T, U = UUID(int=1), UUID(int=2)
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def target(epoch: int, *partitions: int, taken: tuple[int, ...] = (), subscribed: tuple[UUID, ...] = (T, U)) -> Target:
    return Target(
        epoch, {T: frozenset(partitions)}, lambda topic: topic in subscribed, lambda _, index: index not in taken
    )


def owning(epoch: int, *partitions: int, state: MemberState = STABLE, revoked: tuple[int, ...] = ()) -> Current:
    return Current(
        epoch, epoch - 1, state, {T: dict.fromkeys(partitions, 1)}, {T: dict.fromkeys(revoked, 1)} if revoked else {}
    )


def shown(current: Current) -> tuple[int, MemberState, set[int], set[int]]:
    return (
        current.member_epoch,
        MemberState(current.state),
        set(current.assigned.get(T, {})),
        set(current.pending_revocation.get(T, {})),
    )


def test_a_member_in_the_target_epoch_stays_as_it_is() -> None:
    current = owning(5, 0, 1)
    assert reconcile(current, target(5, 2), {T: frozenset({0})}) is current


def test_a_new_member_gets_what_is_free_and_the_epoch_of_the_target() -> None:
    after = reconcile(Current(), target(3, 0, 1), {})
    assert shown(after) == (3, STABLE, {0, 1}, set())
    assert after.assigned[T] == {0: 3, 1: 3}  # the epoch in which it got them (KIP-1251)
    assert after.previous_member_epoch == 0


def test_what_others_own_is_waited_for() -> None:
    waiting = reconcile(Current(), target(3, 0, 1, taken=(1,)), {})
    assert shown(waiting) == (3, UNRELEASED, {0}, set())
    assert reconcile(waiting, target(3, 0, 1, taken=(1,)), None) is waiting
    assert shown(reconcile(waiting, target(3, 0, 1), None)) == (3, STABLE, {0, 1}, set())


def test_partitions_are_given_up_before_others_are_got_and_before_the_epoch_moves() -> None:
    after = reconcile(owning(5, 0, 1), target(6, 1, 2), {T: frozenset({0, 1})})
    assert shown(after) == (5, UNREVOKED, {1}, {0})


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (None, (5, UNREVOKED, {1}, {0})),
        ({T: frozenset({0, 1})}, (5, UNREVOKED, {1}, {0})),
        ({T: frozenset({1})}, (6, STABLE, {1, 2}, set())),
        ({}, (6, STABLE, {1, 2}, set())),
    ],
    ids=["silent", "still owns it", "gave it up", "owns nothing"],
)
def test_a_revocation_ends_when_the_member_reports_that_it_no_longer_owns_the_partition(
    reported: dict[UUID, frozenset[int]] | None, expected: tuple[int, MemberState, set[int], set[int]]
) -> None:
    assert shown(reconcile(owning(5, 1, state=UNREVOKED, revoked=(0,)), target(6, 1, 2), reported)) == expected


def test_a_member_that_reports_at_once_that_it_owns_nothing_need_not_give_anything_up() -> None:
    assert shown(reconcile(owning(5, 0, 1), target(6, 1), {})) == (6, STABLE, {1}, set())


def test_after_one_revocation_the_next_target_may_ask_for_another_one() -> None:
    after = reconcile(owning(5, 1, 2, state=UNREVOKED, revoked=(0,)), target(8, 2), {T: frozenset({1, 2})})
    assert shown(after) == (5, UNREVOKED, {2}, {1})  # as in Apache Kafka 4.4: its epoch moves with the last one
    assert after.previous_member_epoch == 5


def test_partitions_of_a_topic_that_is_not_subscribed_to_any_more_are_taken_back_at_once() -> None:
    left = target(5, 0, 1, subscribed=(U,))
    after = reconcile(owning(5, 0, 1), left, None, subscription_changed=True)
    assert shown(after) == (5, UNREVOKED, set(), {0, 1})
    assert shown(reconcile(after, left, {})) == (5, STABLE, set(), set())
    unchanged = owning(5, 0, 1)
    assert reconcile(unchanged, target(5, 0, 1), None, subscription_changed=True) is unchanged


def test_a_target_of_a_topic_that_the_member_left_gives_nothing() -> None:
    assert shown(reconcile(Current(), target(3, 0, subscribed=(U,)), {})) == (3, STABLE, set(), set())


def test_kept_partitions_keep_the_epoch_in_which_they_were_got() -> None:
    after = reconcile(owning(5, 0), target(6, 0, 1), None)
    assert after.assigned[T] == {0: 1, 1: 6}


def test_a_target_that_gives_a_partition_back_that_was_being_given_up_waits_for_nobody() -> None:
    current = owning(5, 1, state=UNREVOKED, revoked=(0,))
    after = reconcile(current, target(7, 0, 1, taken=(0, 1)), {T: frozenset({1})})
    assert shown(after) == (7, STABLE, {0, 1}, set())


def test_a_topic_that_is_left_during_a_revocation_is_given_up_too() -> None:
    current = owning(5, 1, state=UNREVOKED, revoked=(0,))
    left = target(6, 1, subscribed=(U,))
    assert shown(reconcile(current, left, None, subscription_changed=True)) == (5, UNREVOKED, set(), {0, 1})
    assert reconcile(current, left, None) is current


@pytest.mark.parametrize("reported", [None, {T: frozenset({0})}])
def test_a_member_in_a_state_of_a_newer_version_is_fenced(reported: dict[UUID, frozenset[int]] | None) -> None:
    current = owning(5, 0)._replace(state=127)
    with pytest.raises(ApiError) as refused:
        validate_state(current, reported)
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    validate_state(current, {})
    assert shown(reconcile(current, target(5, 0, taken=(0,)), {})) == (5, STABLE, {0}, set())
