"""A batch that was sent behind a refused one is refused, too, until order is back: librdkafka's epoch stays."""

from __future__ import annotations

from support.sequences import known, sent
from tailrace_broker.produce.refused_batches import RefusedBatches

PLACE = (b"t", 0)


def test_where_nothing_was_refused_nothing_is_missed() -> None:
    assert not RefusedBatches().misses(PLACE, known(4), sent(9))


def test_what_follows_a_refused_batch_misses_it_until_it_has_come() -> None:
    refused = RefusedBatches()
    refused.refused(PLACE)
    assert [refused.misses(PLACE, known(4), sent(sequence)) for sequence in (6, 7, 8)] == [True, True, True]
    assert not refused.misses(PLACE, known(4), sent(5))
    assert not refused
    assert not refused.misses(PLACE, known(5), sent(7)), "order is back: the log's own answer is due"


def test_a_client_that_gave_the_refused_batch_up_gets_the_logs_own_answer_at_its_second_try() -> None:
    refused = RefusedBatches()
    refused.refused(PLACE)
    assert [refused.misses(PLACE, known(4), sent(6)) for _ in range(3)] == [True, False, False]
    refused.refused(PLACE)
    assert refused.misses(PLACE, known(4), sent(6)), "another refusal, another row of batches behind it"


def test_partitions_and_connections_are_apart_and_bounded() -> None:
    refused = RefusedBatches()
    for partition in range(5000):
        refused.refused((b"t", partition))
    assert len(refused) == 1000
    assert refused.awaits((b"t", 4999))
    assert not refused.awaits((b"t", 0))
    assert sum(refused.misses((b"t", 4999), known(4), sent(sequence)) for sequence in range(6, 1000)) == 64
