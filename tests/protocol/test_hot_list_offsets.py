"""The hand-written ListOffsets codec agrees with the schema-driven one in every version, and leaves it what it must."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.wire import codec
from tailrace.wire.apis import ApiKey
from tailrace.wire.header import parse_request_header
from tailrace.wire.hot.list_offsets import FoundOffset, decode_list_offsets, encode_list_offsets_answer
from tailrace.wire.messages import ListOffsetsRequest, ListOffsetsResponse

VERSIONS = range(1, 12)
i16 = st.integers(-(2**15), 2**15 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=140)
asked = st.lists(st.tuples(names, st.lists(st.tuples(i32, i32, i64), max_size=4)), max_size=3)
answered = st.lists(st.tuples(names, st.lists(st.builds(FoundOffset, i32, i16, i64, i64, i32), max_size=4)), max_size=3)


def body_of(topics: list[tuple[str, list[tuple[int, int, int]]]], version: int) -> memoryview:
    topic = ListOffsetsRequest.ListOffsetsTopic
    row = topic.ListOffsetsPartition
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1,
        topics=[
            topic(
                name=name,
                partitions=[
                    row(partition_index=index, current_leader_epoch=epoch, timestamp=timestamp)
                    for index, epoch, timestamp in rows
                ],
            )
            for name, rows in topics
        ],
        timeout_ms=5,
    )
    frame = memoryview(codec.encode_request(request, version, 1, "c"))[4:]
    return frame[parse_request_header(frame).body_offset :]


@pytest.mark.parametrize("version", VERSIONS)
@given(topics=asked)
def test_a_request_decodes_as_the_schema_says(
    version: int, topics: list[tuple[str, list[tuple[int, int, int]]]]
) -> None:
    found = decode_list_offsets(version, body_of(topics, version))
    shown = [(name.encode(), [(i, e if version >= 4 else -1, t) for i, e, t in rows]) for name, rows in topics]
    assert found == (1 if version >= 2 else 0, shown)


@pytest.mark.parametrize("version", VERSIONS)
@given(topics=asked, damage=st.binary(min_size=1, max_size=3), at=st.integers(0, 40))
def test_what_is_not_one_plain_body_is_left_to_the_schema(
    version: int, topics: list[tuple[str, list[tuple[int, int, int]]]], damage: bytes, at: int
) -> None:
    body = bytes(body_of(topics, version))
    assert decode_list_offsets(version, memoryview(body + damage)) is None
    assert decode_list_offsets(version, memoryview(body[:-1])) is None
    torn = body[:at] + damage + body[at + len(damage) :]
    found = decode_list_offsets(version, memoryview(torn))
    if found is not None:  # then the schema reads the same, a topic that is named twice once
        request = codec.decode_request(ApiKey.LIST_OFFSETS, version, memoryview(torn))
        isolation, topics_found = found
        assert isolation == request.isolation_level % 256  # one byte, which the schema takes for a signed one
        joined: dict[bytes, list[tuple[int, int]]] = {}
        for name, wanted in topics_found:
            joined.setdefault(name, []).extend((want.partition, want.timestamp) for want in wanted)
        rows = [
            (topic.name.encode(), [(row.partition_index, row.timestamp) for row in topic.partitions])
            for topic in request.topics
        ]
        assert list(joined.items()) == rows


@pytest.mark.parametrize("version", VERSIONS)
@given(topics=answered, correlation_id=i32)
def test_an_answer_reads_as_the_schema_says(
    version: int, topics: list[tuple[str, list[FoundOffset]]], correlation_id: int
) -> None:
    ours = encode_list_offsets_answer(version, correlation_id, [(name.encode(), rows) for name, rows in topics])
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    row = topic.ListOffsetsPartitionResponse
    theirs = ListOffsetsResponse(
        throttle_time_ms=0,
        topics=[
            topic(
                name=name,
                partitions=[
                    row(partition_index=f.partition, error_code=f.error_code, timestamp=f.timestamp, offset=f.offset)
                    if version < 4
                    else row(
                        partition_index=f.partition,
                        error_code=f.error_code,
                        timestamp=f.timestamp,
                        offset=f.offset,
                        leader_epoch=f.leader_epoch,
                    )
                    for f in rows
                ],
            )
            for name, rows in topics
        ],
    )
    assert ours == bytes(codec.encode_response(theirs, version, correlation_id))
