"""The hand-written Produce and Fetch codecs agree with the schema-driven one, in every version."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.pieces import whole
from tailrace.wire import codec
from tailrace.wire.apis import ApiKey
from tailrace.wire.header import parse_request_header
from tailrace.wire.hot import fetch
from tailrace.wire.hot.fetch import Fetch, PartitionData, decode_fetch, encode_fetch_answer, node_endpoints
from tailrace.wire.hot.produce import (
    decode_produce,
    encode_internal_produce,
    encode_produce_answer,
    with_throttle,
)
from tailrace.wire.hot.produce_heads import _MAX_HEADS, Head, Heads
from tailrace.wire.messages import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse

TOPIC_ID = UUID(int=77)
i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
partitions = st.lists(st.tuples(i32, st.none() | st.binary(max_size=300)), max_size=4)
topics = st.lists(st.tuples(st.text(max_size=20), partitions), max_size=3)


def body_of(request: Any, version: int) -> memoryview:
    return memoryview(codec.encode_request(request, version, 1, "c"))[4:][
        parse_request_header(memoryview(codec.encode_request(request, version, 1, "c"))[4:]).body_offset :
    ]


@pytest.mark.parametrize("version", range(3, 14))
@settings(max_examples=40, deadline=None)
@given(asked=topics, acks=st.sampled_from([-1, 0, 1]), txn=st.none() | st.text(max_size=10))
def test_produce_decodes_as_the_schema_says(version: int, asked: Any, acks: int, txn: str | None) -> None:
    topic = ProduceRequest.TopicProduceData
    request = ProduceRequest(
        transactional_id=txn,
        acks=acks,
        timeout_ms=5,
        topic_data=[
            topic(
                name=name,
                topic_id=TOPIC_ID,
                partition_data=[topic.PartitionProduceData(index=i, records=r) for i, r in rows],
            )
            for name, rows in asked
        ],
    )
    ours = decode_produce(version, body_of(request, version))
    assert ours.transactional_id == (None if txn is None else txn.encode())
    assert (ours.acks, ours.timeout_ms) == (acks, 5)
    keys = [TOPIC_ID.bytes if version >= 13 else name.encode() for name, _ in asked]
    assert [t.key for t in ours.topics] == keys
    rows = [[(p.partition, None if p.records is None else bytes(p.records)) for p in t.partitions] for t in ours.topics]
    assert rows == [r for _, r in asked]


@pytest.mark.parametrize("version", range(9, 14))
@settings(max_examples=60, deadline=None)
@given(name=st.text(max_size=140), index=i32, records=st.none() | st.binary(max_size=400), damage=st.binary(max_size=3))
def test_the_usual_produce_is_read_the_same_by_its_head(
    version: int, name: str, index: int, records: bytes | None, damage: bytes
) -> None:
    body = bytes(one_batch(version, name, index, records))
    heads = Heads()
    for variant in (body, body[: len(body) - len(damage)] + damage, body + damage, body[: -len(damage) - 1], body):
        view = memoryview(variant)
        usual = read_or_none(heads, version, view)
        if usual is not None:
            head, found = usual
            decoded = decode_produce(version, view)
            (topic,) = decoded.topics
            ((partition, expected, shard_epoch),) = topic.partitions
            assert (head.acks, head.timeout_ms, head.key, head.index) == (-1, 7, topic.key, partition)
            assert (decoded.transactional_id, decoded.acks, decoded.timeout_ms, shard_epoch) == (None, -1, 7, -1)
            assert expected is not None
            assert bytes(found) == bytes(expected)
    assert index == decode_produce(version, memoryview(body)).topics[0].partitions[0].partition


def one_batch(version: int, name: str, index: int, records: bytes | None) -> memoryview:
    topic = ProduceRequest.TopicProduceData
    row = topic.PartitionProduceData(index=index, records=records)
    data = topic(name=name, topic_id=TOPIC_ID, partition_data=[row])
    return body_of(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=7, topic_data=[data]), version)


def read_or_none(heads: Heads, version: int, view: memoryview) -> tuple[Head, memoryview] | None:
    try:
        return heads.read(version, view)
    except codec.Malformed:
        return None


@pytest.mark.parametrize("version", [9, 12, 13])
def test_a_head_is_read_once_and_told_apart_by_topic_partition_and_version(version: int) -> None:
    heads = Heads()

    def head(*asked: Any, version: int = version) -> Head:
        usual = heads.read(version, one_batch(version, *asked))
        assert usual is not None
        return usual[0]

    first = head("t", 3, b"a" * 70)
    assert head("t", 3, b"b" * 200) is first
    assert head("t", 4, b"a" * 70) is not first
    assert head("t", 3, b"a" * 70, version=12 if version == 13 else 13) is not first
    if version < 13:
        assert head("u", 3, b"a" * 70) is not first


def test_heads_are_forgotten_when_there_are_too_many() -> None:
    heads = Heads()
    found = [heads.read(9, one_batch(9, "t", index, b"a" * 70)) for index in (*range(_MAX_HEADS + 1), _MAX_HEADS, 0)]
    first, last, last_again, first_again = (usual and usual[0] for usual in (found[0], *found[-3:]))
    assert first is not None and last is not None
    assert last_again is last and first_again is not first


@pytest.mark.parametrize("version", range(9, 14))
@settings(max_examples=40, deadline=None)
@given(name=st.text(min_size=1, max_size=30), index=i32, base_offset=i64, time_ms=i64, start=i64)
def test_the_answer_of_a_head_is_that_of_the_general_encoder(
    version: int, name: str, index: int, base_offset: int, time_ms: int, start: int
) -> None:
    usual = Heads().read(version, one_batch(version, name, index, b"a" * 70))
    assert usual is not None
    key = TOPIC_ID.bytes if version >= 13 else name.encode()
    general = encode_produce_answer(version, -9, [(key, [(index, 0, base_offset, time_ms, start)])])
    assert usual[0].answer(-9, base_offset, time_ms, start) == general


@pytest.mark.parametrize("version", range(9, 14))
@settings(max_examples=40, deadline=None)
@given(name=st.text(max_size=200), index=i32, base_offset=i64, time_ms=i64, start=i64)
def test_an_answer_for_one_partition_decodes_as_the_schema_says(
    version: int, name: str, index: int, base_offset: int, time_ms: int, start: int
) -> None:
    key = TOPIC_ID.bytes if version >= 13 else name.encode()
    frame = encode_produce_answer(version, -9, [(key, [(index, 0, base_offset, time_ms, start)])])
    assert codec.response_correlation_id(frame[4:]) == -9
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    answer: ProduceResponse = codec.decode_response(0, version, codec.response_body(0, version, frame[4:]))
    (topic,) = answer.responses
    (row,) = topic.partition_responses
    assert topic.topic_id == TOPIC_ID if version >= 13 else topic.name == name
    assert (row.index, row.base_offset, row.log_append_time_ms, row.log_start_offset) == (
        index,
        base_offset,
        time_ms,
        start,
    )
    assert (row.error_code, row.record_errors, row.error_message) == (0, [], None)


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_answers_decode_as_the_schema_says(version: int) -> None:
    key = TOPIC_ID.bytes if version >= 13 else b"topic"
    frame = encode_produce_answer(version, 9, [(key, [(3, 0, 1234, -1, 5), (4, 6, -1, -1, -1)])])
    assert codec.response_correlation_id(frame[4:]) == 9
    answer: ProduceResponse = codec.decode_response(0, version, codec.response_body(0, version, frame[4:]))
    first, second = answer.responses[0].partition_responses
    assert (first.index, first.error_code, first.base_offset) == (3, 0, 1234)
    assert first.log_start_offset == (5 if version >= 5 else -1)
    assert (second.index, second.error_code, second.error_message) == (4, 6, None)


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_throttled_produce_answer_is_the_same_but_for_its_throttle_time(version: int, partitions: int) -> None:
    key = TOPIC_ID.bytes if version >= 13 else b"topic"
    frame = encode_produce_answer(version, 9, [(key, [(n, 0, 1234, -1, 5) for n in range(partitions)])])
    throttled = with_throttle(version, frame, 777)
    before, after = (
        codec.decode_response(0, version, codec.response_body(0, version, data[4:])) for data in (frame, throttled)
    )
    assert (before.throttle_time_ms, after.throttle_time_ms) == (0, 777)
    before.throttle_time_ms = 777
    assert after == before


def test_an_internal_produce_carries_the_shard_epoch_beside_the_batch() -> None:
    frame = encode_internal_produce(
        13, 5, "coordinator-0", TOPIC_ID.bytes, 7, b"r" * 200, shard_epoch=42, timeout_ms=1000
    )
    header = parse_request_header(memoryview(frame)[4:])
    assert header.correlation_id == 5
    assert header.client_id == "coordinator-0"
    body = memoryview(frame)[4 + header.body_offset :]
    ours = decode_produce(13, body)
    assert ours.topics[0].partitions[0].shard_epoch == 42
    assert bytes(ours.topics[0].partitions[0].records or b"") == b"r" * 200
    schema: ProduceRequest = codec.decode_request(0, 13, body)
    assert schema.topic_data[0].partition_data[0].index == 7


@pytest.mark.parametrize("version", range(4, 19))
@settings(max_examples=40, deadline=None)
@given(
    asked=st.lists(st.tuples(st.text(max_size=20), st.lists(st.tuples(i32, i64, i32, i32), max_size=3)), max_size=3),
    gone=st.lists(st.tuples(st.text(max_size=5), st.lists(i32, max_size=3)), max_size=2),
)
def test_fetch_decodes_as_the_schema_says(version: int, asked: Any, gone: Any) -> None:
    topic, forgotten = FetchRequest.FetchTopic, FetchRequest.ForgottenTopic
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=77,
        isolation_level=1,
        session_id=8,
        session_epoch=9,
        rack_id="r1",
        topics=[
            topic(
                topic=name,
                topic_id=TOPIC_ID,
                partitions=[
                    topic.FetchPartition(
                        partition=p,
                        fetch_offset=o,
                        partition_max_bytes=m,
                        current_leader_epoch=e,
                        last_fetched_epoch=-1,
                    )
                    for p, o, m, e in rows
                ],
            )
            for name, rows in asked
        ],
        forgotten_topics_data=[forgotten(topic=n, topic_id=TOPIC_ID, partitions=p) for n, p in gone],
    )
    ours = decode_fetch(version, body_of(request, version))
    assert (ours.max_wait_ms, ours.min_bytes, ours.max_bytes, ours.isolation_level) == (500, 1, 77, 1)
    assert (ours.session_id, ours.session_epoch) == ((8, 9) if version >= 7 else (0, -1))
    assert [
        [(p.partition, p.fetch_offset, p.max_bytes, p.current_leader_epoch) for p in rows] for _, rows in ours.topics
    ] == [[(p, o, m, e if version >= 9 else -1) for p, o, m, e in rows] for _, rows in asked]
    if version >= 7:
        assert [p for _, p in ours.forgotten] == [p for _, p in gone]


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_answers_decode_as_the_schema_says(version: int) -> None:
    key = TOPIC_ID.bytes if version >= 13 else b"topic"
    rows = [
        PartitionData(0, 0, 10, 10, 2, b"abc"),
        PartitionData(1, 6, -1, -1, -1, None, (4, 7) if version >= 12 else None),
        PartitionData(2, 0, 5, 5, 0, b"x" * 500),
    ]
    tags = node_endpoints([(4, "host", 9096)]) if version >= 16 else b"\x00"
    frame = whole(encode_fetch_answer(version, 3, 11, 0, [(key, rows)], tags))
    answer: FetchResponse = codec.decode_response(1, version, codec.response_body(1, version, frame[4:]))
    parts = answer.responses[0].partitions
    assert [bytes(p.records or b"") for p in parts] == [b"abc", b"", b"x" * 500]
    assert [p.high_watermark for p in parts] == [10, -1, 5]
    if version >= 7:
        assert answer.session_id == 11
    if version >= 12:
        assert (parts[1].current_leader.leader_id, parts[1].current_leader.leader_epoch) == (4, 7)
    if version >= 16:
        assert [(n.node_id, n.host, n.port) for n in answer.node_endpoints] == [(4, "host", 9096)]


@pytest.mark.parametrize("version", range(12, 19))
@settings(max_examples=40, deadline=None)
@given(name=st.text(max_size=200), row=st.tuples(i32, st.integers(0, 99), i64, i64, i64), size=st.integers(1, 20_000))
def test_the_usual_fetch_answer_decodes_as_the_schema_says(
    version: int, name: str, row: tuple[int, int, int, int, int], size: int
) -> None:
    key = TOPIC_ID.bytes if version >= 13 else name.encode()
    records = bytes(size)
    data = PartitionData(*row, records, None, size % 2 == 0)
    frame = whole(encode_fetch_answer(version, 3, 11, 0, [(key, [data])]))
    assert struct.unpack_from(">ii", frame) == (len(frame) - 4, 3)
    answer: FetchResponse = codec.decode_response(1, version, codec.response_body(1, version, frame[4:]))
    (topic,) = answer.responses
    (part,) = topic.partitions
    assert topic.topic_id == TOPIC_ID if version >= 13 else topic.topic == name
    assert (answer.error_code, answer.session_id, answer.throttle_time_ms) == (0, 11, 0)
    marks = (part.high_watermark, part.last_stable_offset, part.log_start_offset)
    assert (part.partition_index, part.error_code, *marks) == row
    assert part.records == records
    assert part.aborted_transactions == ([] if data.aborted else None)


@pytest.mark.parametrize("version", range(4, 19))
@settings(max_examples=20, deadline=None)
@given(
    row=st.tuples(i32, st.integers(0, 99), i64, i64, i64),
    size=st.integers(0, 300),
    aborted=st.lists(st.tuples(i64, i64), min_size=1, max_size=200),
)
def test_aborted_transactions_decode_as_the_schema_says(
    version: int, row: tuple[int, int, int, int, int], size: int, aborted: list[tuple[int, int]]
) -> None:
    data = PartitionData(*row, bytes(size), None, True, transactions=aborted)
    key = TOPIC_ID.bytes if version >= 13 else b"topic"
    frame = whole(encode_fetch_answer(version, 3, 0, 0, [(key, [data, data])]))
    answer: FetchResponse = codec.decode_response(1, version, codec.response_body(1, version, frame[4:]))
    for part in answer.responses[0].partitions:
        marks = (part.high_watermark, part.last_stable_offset, part.log_start_offset if version >= 5 else row[4])
        assert (part.partition_index, part.error_code, *marks) == row
        assert len(part.records or b"") == size
        assert [(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()] == aborted


@settings(max_examples=300, deadline=None)
@given(noise=st.binary(max_size=200), version=st.integers(3, 13))
def test_noise_is_malformed_or_decodes_but_never_breaks_produce(noise: bytes, version: int) -> None:
    try:
        decode_produce(version, memoryview(noise))
    except codec.Malformed:
        return


@pytest.mark.parametrize("version", range(12, 19))
@settings(max_examples=60, deadline=None)
@given(
    name=st.text(min_size=1, max_size=140),
    rows=st.lists(st.tuples(i32, i64, i32, i32), max_size=6) | st.just([(1, 2, 3, 4)] * 101),
    rack=st.text(max_size=140),
    noise=st.tuples(st.integers(0, 400), st.integers(1, 255)),
)
def test_the_short_way_through_fetch_agrees_with_the_long_one(
    version: int, name: str, rows: Any, rack: str, noise: tuple[int, int]
) -> None:
    topic = FetchRequest.FetchTopic
    partitions = [
        topic.FetchPartition(partition=p, fetch_offset=o, partition_max_bytes=m, current_leader_epoch=e)
        for p, o, m, e in rows
    ]
    request = FetchRequest(
        max_wait_ms=1,
        min_bytes=1,
        max_bytes=9,
        topics=[topic(topic=name, topic_id=TOPIC_ID, partitions=partitions)],
        rack_id=rack,
    )
    body = bytearray(body_of(request, version))
    if len(rows) < 100 and max(len(name.encode()), len(rack.encode())) < 127:
        assert fetch.decode_common_fetch(version, memoryview(body)) is not None
    for damaged in (False, True):
        if damaged:
            body[noise[0] % len(body)] ^= noise[1]
        try:
            plain: Fetch | str = fetch.decode_plain_fetch(version, memoryview(body))
        except codec.Malformed:
            plain = "malformed"
        try:
            quick: Fetch | str = decode_fetch(version, memoryview(body))
        except codec.Malformed:
            quick = "malformed"
        assert quick == plain


@settings(max_examples=300, deadline=None)
@given(noise=st.binary(max_size=200), version=st.integers(4, 18))
def test_noise_is_malformed_or_decodes_but_never_breaks_fetch(noise: bytes, version: int) -> None:
    try:
        decode_fetch(version, memoryview(noise))
    except codec.Malformed:
        return


@settings(max_examples=300, deadline=None)
@given(noise=st.binary(max_size=120), key=st.sampled_from([k for k in ApiKey if k < 10000]))
def test_noise_is_malformed_or_decodes_but_never_breaks_the_schema_codec(noise: bytes, key: ApiKey) -> None:
    from tailrace.wire.apis import INTERNAL_APIS

    api = INTERNAL_APIS[key]
    for version in range(api.min_version, api.max_version + 1):
        try:
            codec.decode_request(key, version, noise)
        except codec.Malformed:
            continue
