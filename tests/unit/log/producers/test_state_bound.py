"""Producer ids of one log have a bound: the longest idle one goes, as if producer.id.expiration.ms had passed."""

from __future__ import annotations

import pytest

from support.logs import append, open_log, some_batch, values_of
from support.transactions import data_batch, write
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.producers import state as state_module
from tailrace.log.producers.state import ProducerState, decode_snapshot, encode_snapshot
from tailrace.records.batch import validate


def test_at_the_bound_the_longest_idle_id_goes_and_one_with_an_open_transaction_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_module, "MAX_PRODUCER_IDS", 3)
    evicted: list[int] = []
    log = open_log(MemoryFilesystem())
    log.hooks.on_producers_evicted = evicted.append
    write(log, data_batch(1))  # its transaction stays open
    for producer_id in (2, 3):
        append(log, b"v", producer_id=producer_id, producer_epoch=0, base_sequence=0)
    append(log, b"v", producer_id=2, producer_epoch=0, base_sequence=1)  # 3 is the longest idle one now
    append(log, b"v", producer_id=4, producer_epoch=0, base_sequence=0)
    assert (set(log.producers.entries), evicted) == ({1, 2, 4}, [1])
    append(log, b"v", producer_id=5, producer_epoch=0, base_sequence=0)
    assert (set(log.producers.entries), evicted) == ({1, 4, 5}, [1, 1])
    assert log.last_stable_offset(log.log_end_offset) == 0


def test_a_producer_that_was_forgotten_goes_on_with_its_next_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Kafka, which takes any sequence of a producer that it does not know (KIP-360)."""
    monkeypatch.setattr(state_module, "MAX_PRODUCER_IDS", 2)
    log = open_log(MemoryFilesystem())
    for sequence in range(3):
        append(log, b"%d" % sequence, producer_id=1, producer_epoch=0, base_sequence=sequence)
    for producer_id in (2, 3):
        append(log, b"other", producer_id=producer_id, producer_epoch=0, base_sequence=0)
    assert 1 not in log.producers.entries
    first = append(log, b"3", producer_id=1, producer_epoch=0, base_sequence=3)
    again = append(log, b"3", producer_id=1, producer_epoch=0, base_sequence=3)
    assert (first.error_code, again.error_code, again.base_offset) == (0, 0, first.base_offset)
    assert values_of(log) == [b"0", b"1", b"2", b"other", b"other", b"3"]


def test_of_more_open_transactions_than_the_bound_none_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "MAX_PRODUCER_IDS", 3)
    log = open_log(MemoryFilesystem())
    write(log, *[data_batch(producer_id) for producer_id in range(1, 7)])
    assert log.producers.entries.keys() == set(range(1, 7))
    append(log, b"v", producer_id=9, producer_epoch=0, base_sequence=0)
    append(log, b"v", producer_id=10, producer_epoch=0, base_sequence=0)
    assert log.producers.entries.keys() == {*range(1, 7), 10}


def test_a_start_reads_no_more_than_the_bound_and_keeps_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    state = ProducerState()
    for producer_id in range(10):
        state.apply(validate(some_batch(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=0)))
    content = encode_snapshot(state.entries)
    monkeypatch.setattr(state_module, "MAX_PRODUCER_IDS", 4)
    assert decode_snapshot(content).entries.keys() == {6, 7, 8, 9}
