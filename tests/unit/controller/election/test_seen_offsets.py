"""A database that ends below what somebody has seen is refused until an operator gives up what it lacks."""

from dataclasses import replace

from tailrace_controller.election.acceptance import Seen
from tailrace_controller.election.seen_offsets import SeenOffsets
from tailrace_controller.metadata_log.lease_row import Lease

LEASE = Lease(holder=0, token="a", epoch=5, renewals=1, next_offset=101)


def test_what_the_database_holds_is_no_reason_to_refuse() -> None:
    seen = SeenOffsets(None)
    seen.learn(Seen(100, 5))
    seen.judge(LEASE)
    assert seen.refusal == ""


def test_what_the_lease_row_says_counts_and_only_the_highest() -> None:
    seen = SeenOffsets(None)
    seen.judge(replace(LEASE, seen_offset=150, seen_epoch=7))
    seen.learn(Seen(120, 6))
    assert seen.highest == Seen(150, 7) and "--seen-offset 150" in seen.refusal


def test_an_operators_word_ends_it_where_it_covers_all_that_was_seen() -> None:
    seen = SeenOffsets(None)
    seen.learn(Seen(150, 7))
    assert not seen.is_accepted(replace(LEASE, accepted_offset=149)) and "--seen-offset 150" in seen.refusal
    assert seen.is_accepted(replace(LEASE, accepted_offset=150))


def test_the_lease_row_is_told_once_what_it_does_not_say() -> None:
    seen = SeenOffsets(None)
    seen.learn(Seen(150, 7))
    assert seen.unwritten(LEASE) == (150, 7)
    assert seen.unwritten(replace(LEASE, seen_offset=150, seen_epoch=7)) == (-1, -1)
