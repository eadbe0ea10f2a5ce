"""`__transaction_state` in Kafka's schemas: what is written reads back, and damage is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.coordination.fields import BadRecord
from tailrace.coordination.transaction_records import (
    STATES,
    Status,
    TransactionState,
    TransactionStateRemoved,
    decode,
    encode,
    most_bytes,
)
from tailrace.state import size_bytes

IDS = st.integers(-1, 2**63 - 1)
EPOCHS = st.integers(-1, 2**15 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
RECORDS = st.builds(
    TransactionState,
    transactional_id=TEXTS,
    producer_id=IDS,
    producer_epoch=EPOCHS,
    timeout_ms=st.integers(0, 2**31 - 1),
    state=st.sampled_from(STATES),
    partitions=st.lists(st.tuples(TEXTS, st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple)), max_size=3).map(
        tuple
    ),
    last_update_timestamp_ms=IDS,
    start_timestamp_ms=IDS,
    previous_producer_id=IDS,
    next_producer_id=IDS,
    client_transaction_version=st.integers(0, 2),
    next_producer_epoch=EPOCHS,
    last_producer_epoch=EPOCHS,
)
SIMPLE = TransactionState("id", 7, 2, 60_000, Status.ONGOING, (("t", (0, 3)),), 11, 10)


@given(RECORDS)
def test_what_is_written_reads_back(record: TransactionState) -> None:
    assert decode(*encode(record)) == record


@given(RECORDS)
def test_version_0_leaves_out_what_it_has_no_field_for(record: TransactionState) -> None:
    plain = replace(
        record,
        previous_producer_id=-1,
        next_producer_id=-1,
        client_transaction_version=0,
        next_producer_epoch=-1,
        last_producer_epoch=-1,
        value_version=0,
    )
    assert decode(*encode(replace(record, value_version=0))) == plain


@given(RECORDS)
def test_no_record_is_larger_than_its_bound(record: TransactionState) -> None:
    assert size_bytes(encode(record)) <= most_bytes(record)


def test_a_tombstone_names_its_id() -> None:
    assert decode(*encode(TransactionStateRemoved("id"))) == TransactionStateRemoved("id")


def test_the_bytes_are_those_of_the_schema() -> None:
    key, value = encode(replace(SIMPLE, value_version=0))
    assert key == b"\0\0\0\2id"
    assert value == (
        b"\0\0" + (7).to_bytes(8) + b"\0\2" + (60_000).to_bytes(4) + b"\1"
        b"\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\3" + (11).to_bytes(8) + (10).to_bytes(8)
    )  # fmt: skip
    _, flexible = encode(replace(SIMPLE, client_transaction_version=2, last_producer_epoch=1))
    assert flexible == (
        b"\0\1" + (7).to_bytes(8) + b"\0\2" + (60_000).to_bytes(4) + b"\1"
        b"\2\2t\3\0\0\0\0\0\0\0\3\0" + (11).to_bytes(8) + (10).to_bytes(8) + b"\2\2\2\0\2\4\2\0\1"
    )  # fmt: skip


@pytest.mark.parametrize(("version", "null"), [(0, b"\xff\xff\xff\xff"), (1, b"\0")])
def test_an_id_without_a_transaction_has_no_list_of_partitions(version: int, null: bytes) -> None:
    """Kafka writes null, which its DumpLogSegments tells from a list of none."""
    record = replace(SIMPLE, state=Status.EMPTY, partitions=(), value_version=version)
    _, value = encode(record)
    assert value is not None
    assert value[17 : 17 + len(null) + 16] == null + (11).to_bytes(8) + (10).to_bytes(8)
    assert decode(b"\0\0\0\2id", value) == record


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_cut_value_is_told(cut: int) -> None:
    key, value = encode(SIMPLE)
    assert value is not None
    with pytest.raises(BadRecord):
        decode(key, value[:-cut])
