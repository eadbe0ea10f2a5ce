"""A follower's hand-written Fetch agrees with the schema-driven codec, both ways, and survives damage."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.pieces import whole
from tailrace.wire import codec
from tailrace.wire.apis import ApiKey
from tailrace.wire.header import parse_request_header
from tailrace.wire.hot.fetch import FetchPartition, PartitionData, decode_fetch, encode_fetch_answer
from tailrace.wire.hot.replica_fetch import ReplicaFetch, decode_replica_answer, encode_replica_fetch
from tailrace.wire.malformed import Malformed
from tailrace.wire.messages import FetchResponse

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
wants = st.builds(FetchPartition, i32, i32, i64, i32, i64, i32)
ids = st.uuids().map(lambda uuid: uuid.bytes)
topics = st.lists(st.tuples(ids, st.lists(wants, max_size=4)), max_size=3)
gone = st.lists(st.tuples(ids, st.lists(i32, max_size=4)), max_size=3)


@settings(max_examples=150, deadline=None)
@given(replica=i32, epoch=i64, session=i32, asked=topics, forgotten=gone)
def test_the_request_says_what_the_schema_reads(
    replica: int, epoch: int, session: int, asked: Any, forgotten: Any
) -> None:
    fetch = ReplicaFetch(replica, epoch, 500, 1, 1 << 20, session, 7, asked, forgotten)
    frame = memoryview(encode_replica_fetch(fetch, 5, b"broker-1"))[4:]
    header = parse_request_header(frame)
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (1, 17, 5, "broker-1")
    body = frame[header.body_offset :]
    read = codec.decode_request(ApiKey.FETCH, 17, body)
    assert (read.replica_state.replica_id, read.replica_state.replica_epoch) == (replica, epoch)
    assert [(t.topic_id.bytes if t.topic_id else bytes(16), len(t.partitions)) for t in read.topics] == [
        (key, len(rows)) for key, rows in asked
    ]
    ours = decode_fetch(17, body)
    assert (ours.replica_id, ours.replica_epoch, ours.session_id) == (replica, epoch, session)
    assert ours.topics == asked
    assert ours.forgotten == forgotten


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_the_answer_is_read_as_it_was_written(data: st.DataObject) -> None:
    row = st.builds(
        PartitionData,
        i32,
        st.integers(0, 120),
        i64,
        i64,
        i64,
        st.binary(max_size=200),
        st.none() | st.tuples(i32, i32),
        st.booleans(),
        i32,
        st.none() | st.tuples(i32, i64),
        st.lists(st.tuples(i64, i64), max_size=2),
    )
    rows = data.draw(st.lists(st.tuples(ids, st.lists(row, max_size=3)), max_size=3))
    frame = whole(encode_fetch_answer(17, 9, 44, 0, rows))[4:]
    read = decode_replica_answer(frame)
    assert (read.error_code, read.session_id) == (0, 44)
    flat = [(key, one) for key, many in rows for one in many]
    assert len(read.rows) == len(flat)
    for got, (key, one) in zip(read.rows, flat, strict=True):
        assert got.topic_id == key
        assert got[1:5] == (one.partition, one.error_code, one.high_watermark, one.log_start_offset)
        assert (bytes(got.records), got.diverging, got.leader) == (one.records, one.diverging, one.leader)
    schema = codec.decode_response(ApiKey.FETCH, 17, codec.response_body(ApiKey.FETCH, 17, frame))
    found = [p for t in schema.responses for p in t.partitions]
    for got, (_, one) in zip(found, flat, strict=True):
        assert got.preferred_read_replica == one.preferred
        if one.diverging is not None:
            assert (got.diverging_epoch.epoch, got.diverging_epoch.end_offset) == one.diverging


def test_aborted_transactions_and_unknown_tags_are_passed_over() -> None:
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData
    aborted = partition.AbortedTransaction(producer_id=1, first_offset=2)
    rows = [
        partition(partition_index=3, error_code=0, high_watermark=4, aborted_transactions=[aborted], records=b"xyz")
    ]
    response = FetchResponse(responses=[topic(topic_id=UUID(int=5), partitions=rows)])
    read = decode_replica_answer(codec.encode_response(response, 17, 1)[4:])
    assert bytes(read.rows[0].records) == b"xyz"


@settings(max_examples=200, deadline=None)
@given(cut=st.integers(0, 200), noise=st.binary(max_size=5))
def test_damage_is_malformed_and_nothing_else(cut: int, noise: bytes) -> None:
    row = PartitionData(1, 0, 5, 5, 0, b"records", (1, 2), False, -1, (3, 4))
    frame = whole(encode_fetch_answer(17, 9, 44, 0, [(UUID(int=5).bytes, [row])]))[4:]
    damaged = frame[:cut] + noise + frame[cut + len(noise) :][: max(0, len(frame) - cut - len(noise) - 1)]
    try:
        decode_replica_answer(damaged)
    except Malformed:
        return
    assert len(damaged) <= len(frame)


@pytest.mark.parametrize("size", range(0, 60, 7))
def test_a_cut_answer_is_malformed(size: int) -> None:
    row = PartitionData(1, 0, 5, 5, 0, b"records")
    frame = whole(encode_fetch_answer(17, 9, 44, 0, [(UUID(int=5).bytes, [row])]))[4:]
    with pytest.raises(Malformed):
        decode_replica_answer(frame[: min(size, len(frame) - 1)])
