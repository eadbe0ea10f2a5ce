"""The hand-written DescribeProducers answer agrees with the schema-driven codec, and damage is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.wire import codec
from tailrace.wire.apis import ApiKey
from tailrace.wire.hot.producers import (
    DescribedProducer,
    PartitionProducers,
    decode_describe_producers,
    encode_describe_producers,
    pack,
)

i16 = st.integers(-(2**15), 2**15 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=140)
producers = st.builds(DescribedProducer, i64, i32, i32, i64, i32, i64)
described = st.builds(PartitionProducers, i32, i16, st.none() | names, st.lists(producers, max_size=4).map(pack))
answers = st.lists(st.tuples(names, st.lists(described, max_size=4)), max_size=3)


@given(topics=answers)
def test_an_answer_is_what_the_schema_says_and_is_read_again(
    topics: list[tuple[str, list[PartitionProducers]]],
) -> None:
    body = bytes(encode_describe_producers(topics).body)
    answer = codec.decode_response(ApiKey.DESCRIBE_PRODUCERS, 0, body)
    assert codec.encode_response_body(answer, 0) == body
    read = decode_describe_producers(memoryview(body))
    for (name, rows), (read_name, read_rows), told in zip(topics, read, answer.topics, strict=True):
        assert name == read_name == told.name
        for row, read_row, said in zip(rows, read_rows, told.partitions, strict=True):
            shown = (row.partition_index, row.error_code, row.error_message)
            assert shown == (read_row.partition_index, read_row.error_code, read_row.error_message)
            assert shown == (said.partition_index, said.error_code, said.error_message)
            assert list(row.producers()) == list(read_row.producers())
            assert len(row) == len(said.active_producers)
            assert [list(one.to_dict().values()) for one in said.active_producers] == [
                list(one) for one in row.producers()
            ]


@given(topics=answers, damage=st.binary(min_size=1, max_size=3), at=st.integers(0, 200))
def test_a_damaged_answer_is_malformed_or_reads_as_the_schema_does(
    topics: list[tuple[str, list[PartitionProducers]]], damage: bytes, at: int
) -> None:
    body = bytes(encode_describe_producers(topics).body)
    for torn in (body + damage, body[:-1]):
        with pytest.raises(codec.Malformed):
            decode_describe_producers(memoryview(torn))
    torn = body[:at] + damage + body[at + len(damage) :]
    try:
        read = decode_describe_producers(memoryview(torn))
        found = [[list(row.producers()) for row in rows] for _, rows in read]
    except codec.Malformed:
        return
    answer = codec.decode_response(ApiKey.DESCRIBE_PRODUCERS, 0, torn)
    told = [
        [[DescribedProducer(*one.to_dict().values()) for one in row.active_producers] for row in topic.partitions]
        for topic in answer.topics
    ]
    assert found == told


@pytest.mark.parametrize("count", [2**28, 2**31])
def test_a_count_that_cannot_be_is_malformed_before_anything_is_made(count: int) -> None:
    varint = bytes([count >> shift & 0x7F | 0x80 for shift in (0, 7, 14, 21)]) + bytes([count >> 28])
    with pytest.raises(codec.Malformed):
        decode_describe_producers(memoryview(bytes(4) + varint + bytes(8)))
