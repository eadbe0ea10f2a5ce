"""The shard: what it appends when, and which replies wait for which append."""

import pytest

from tailrace.state import Effects, Overloaded, Shard, ShardBatch, Timer
from tailrace.state.limits import RECORDS_A_BATCH


class Sum:
    """Adds its records up."""

    def __init__(self) -> None:
        self.total = 0

    def apply(self, record: int) -> None:
        self.total += record


def shard(max_batch_bytes: int = 1000, **bounds: int) -> Shard[int]:
    return Shard(Sum(), lambda record: (b"k", str(record).encode()), max_batch_bytes=max_batch_bytes, **bounds)


def appended(batch: ShardBatch | None) -> list[int]:
    return [int(value or b"") for _, value in (() if batch is None else batch.records)]


def test_a_decision_is_applied_before_it_is_appended_and_answered_after() -> None:
    one = shard()
    output = one.take(Effects(records=(5,), replies=((1, "five"),)))
    assert one.machine.total == 5
    assert appended(output.append) == [5]
    assert output.replies == ()
    assert one.committed().replies == ((1, "five"),)
    assert one.idle


def test_what_arrives_during_an_append_is_gathered_in_the_next() -> None:
    one = shard()
    one.take(Effects(records=(1,), replies=((1, "a"),)))
    assert one.take(Effects(records=(2,), replies=((2, "b"),))).append is None
    assert one.take(Effects(records=(3,), replies=((3, "c"),))).append is None
    first = one.committed()
    assert first.replies == ((1, "a"),)
    assert appended(first.append) == [2, 3]
    assert one.committed().replies == ((2, "b"), (3, "c"))


def test_a_read_waits_behind_the_write_it_saw() -> None:
    one = shard()
    one.take(Effects(records=(1,)))
    assert one.take(Effects(replies=((7, "read"),))).replies == ()
    assert one.committed().replies == ((7, "read"),)


def test_a_read_of_committed_state_is_answered_at_once() -> None:
    assert shard().take(Effects(replies=((7, "read"),))).replies == ((7, "read"),)


def test_timers_do_not_wait_for_the_log() -> None:
    one = shard()
    one.take(Effects(records=(1,)))
    assert one.take(Effects(timers=(Timer("k", 5),))).timers == (Timer("k", 5),)


def test_a_decision_of_more_than_one_batch_is_answered_with_its_last() -> None:
    one = shard(max_batch_bytes=70)
    first = one.take(Effects(records=(1, 2, 3), replies=((1, "all"),)))
    assert appended(first.append) == [1, 2]
    second = one.committed()
    assert (appended(second.append), second.replies) == ([3], ())
    assert one.committed().replies == ((1, "all"),)


def test_a_record_larger_than_a_batch_still_goes_out_alone() -> None:
    assert appended(shard(max_batch_bytes=1).take(Effects(records=(1, 2))).append) == [1]


def test_a_dropped_shard_names_the_askers_it_leaves_without_a_reply() -> None:
    one = shard()
    one.take(Effects(records=(1,), replies=((1, "a"),)))
    one.take(Effects(replies=((2, "b"),)))
    assert one.drop() == (1, 2)
    with pytest.raises(AssertionError):
        one.take(Effects())


def test_too_many_waiting_replies_are_refused_before_they_are_decided() -> None:
    one = shard(max_waiting_replies=1)
    one.take(Effects(records=(1,), replies=((1, "a"),)))
    one.take(Effects(replies=((2, "b"),)))
    with pytest.raises(Overloaded):
        one.admit()
    assert one.machine.total == 1


def test_too_many_waiting_bytes_are_refused() -> None:
    one = shard(max_waiting_bytes=50)
    one.take(Effects(records=(1,)))
    one.take(Effects(records=(2, 3)))
    with pytest.raises(Overloaded):
        one.admit()
    one.committed()
    one.take(Effects(records=(5,)))


def test_a_batch_has_no_more_records_than_are_built_in_a_step() -> None:
    one = shard(max_batch_bytes=1_000_000)
    output = one.take(Effects(records=(1,) * (RECORDS_A_BATCH + 1)))
    assert len(appended(output.append)) == RECORDS_A_BATCH
    assert len(appended(one.committed().append)) == 1


def test_a_whole_decision_is_in_one_batch_whatever_is_before_and_after_it() -> None:
    one = shard(max_batch_bytes=150)
    first = one.take(Effects(records=(1,)))
    one.take(Effects(records=(2, 3)))
    one.take(Effects(records=(4, 5, 6), replies=((1, "whole"),), is_whole=True))
    one.take(Effects(records=(7,)))
    batches = [appended(first.append)]
    for _ in range(3):
        output = one.committed()
        batches.append(appended(output.append))
    assert batches == [[1], [2, 3], [4, 5, 6], [7]]
    assert one.committed().append is None


def test_a_whole_decision_may_have_more_records_than_a_batch_of_others() -> None:
    output = shard(max_batch_bytes=1_000_000).take(Effects(records=(1,) * (RECORDS_A_BATCH + 1), is_whole=True))
    assert len(appended(output.append)) == RECORDS_A_BATCH + 1
