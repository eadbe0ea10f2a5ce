"""Verifications: which marker overtakes the coordinator's answer, and which is of the transaction before."""

from __future__ import annotations

import pytest

from tailrace.log.producers.verification import MOST_KEPT, Verifications

P = 7


@pytest.mark.parametrize(
    ("version_2", "marker_epoch", "overtakes"),
    [(False, 3, True), (False, 4, True), (True, 3, False), (True, 4, False), (True, 5, True)],
)
def test_a_marker_that_ends_what_is_asked_about_lets_nothing_in(
    version_2: bool, marker_epoch: int, overtakes: bool
) -> None:
    """Of version 2 the marker of the transaction before has the epoch that asks: its coordinator waits for it."""
    verifications = Verifications()
    found = verifications.begin(P, 4, 0, 0, supports_epoch_bump=version_2)
    verifications.ended(P, marker_epoch)
    assert (verifications.get(P) is not found) == overtakes


def test_a_batch_that_begins_the_transaction_uses_it_up() -> None:
    verifications = Verifications()
    verifications.begin(P, 4, 0, 0, supports_epoch_bump=True)
    verifications.clear(P)
    assert verifications.get(P) is None


def test_the_oldest_go_where_there_are_too_many_and_the_idle_with_time() -> None:
    verifications = Verifications()
    for producer_id in range(MOST_KEPT + 1):
        verifications.begin(producer_id, 0, 0, producer_id, supports_epoch_bump=False)
    assert (len(verifications), verifications.get(0)) == (MOST_KEPT, None)
    verifications.expire(MOST_KEPT + 1000, 2000)
    assert len(verifications) == 1000
