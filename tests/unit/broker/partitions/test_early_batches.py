"""A batch that a new leader gets without the one before it, which the leader before may have refused."""

from __future__ import annotations

import pytest

from support.sequences import known, sent
from tailrace.log.producers.state import MAX_SEQUENCE, ProducerEntry
from tailrace.records.batch import BatchHeader
from tailrace_broker.partitions.early_batches import EarlyBatches, skips


@pytest.mark.parametrize(
    ("entry", "header", "expected"),
    [
        (known(4), sent(5), False),
        (known(4), sent(6), True),
        (known(4), sent(4), False),  # a duplicate
        (known(4), sent(2), False),  # older than what is remembered: not ours to answer
        (known(4), sent(0, epoch=1), False),
        (known(4), sent(1, epoch=1), True),
        (known(4, epoch=1), sent(6), False),  # fenced
        (None, sent(0), False),
        (None, sent(3), True),
        (ProducerEntry(0, (), 0), sent(3), True),
        (known(MAX_SEQUENCE), sent(0), False),
        (known(MAX_SEQUENCE), sent(1), True),
        (known(MAX_SEQUENCE - 1), sent(0), True),
        (known(4), sent(-1), False),
        (known(4), sent(7, producer_id=-1), False),
    ],
)
def test_a_batch_skips_what_the_log_does_not_have(
    entry: ProducerEntry | None, header: BatchHeader, expected: bool
) -> None:
    assert skips(entry, header) is expected


def test_what_a_producer_sends_first_to_a_new_leader_may_come_early_once() -> None:
    early, late_ms = EarlyBatches(start_offset=51, since_ms=0), 99_000
    before = known(4)  # at offset 50, of the leader before
    assert [early.comes_early(before, sent(sequence), late_ms) for sequence in (6, 7, 6)] == [True, True, False]
    assert not early.comes_early(before, sent(5), late_ms)
    assert not early.comes_early(None, sent(6), late_ms)
    assert early.comes_early(before, sent(3, epoch=1), late_ms)


def test_in_the_first_minute_of_a_leadership_any_batch_may_come_early_once() -> None:
    within, now_ms = EarlyBatches(start_offset=50, since_ms=5_000), 64_000
    assert [within.comes_early(known(4), sent(6), now_ms) for _ in range(2)] == [True, False]
    assert not within.comes_early(known(4), sent(8), 66_000), "it has a batch in this epoch"


def test_a_leadership_remembers_a_bounded_number_of_early_batches() -> None:
    early = EarlyBatches(start_offset=51, since_ms=0)
    count = sum(early.comes_early(known(4), sent(6, producer_id=producer_id), 0) for producer_id in range(10_050))
    assert count == 10_000
