"""The consumers' own bytes: topics and partitions, or nothing where another format is in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from tailrace.kafka.consumer_protocol import (
    MOST_PARTITIONS,
    encode_assignment,
    encode_subscription,
    partitions_of,
    read_assignment,
    read_subscription,
    read_topics,
)

names = st.text(max_size=20)


def test_the_partitions_that_a_client_wrote_are_read() -> None:
    topic = ConsumerProtocolAssignment.TopicPartition
    written = ConsumerProtocolAssignment(
        version=1,
        assigned_partitions=[topic(topic="orders", partitions=[0, 2]), topic(topic="größe", partitions=[1])],
        user_data=b"x",
    )
    assert partitions_of(bytes(written.encode(version=1))) == [("orders", 0), ("orders", 2), ("größe", 1)]


def test_a_client_reads_the_partitions_that_were_written() -> None:
    read = ConsumerProtocolAssignment.decode(encode_assignment([("orders", 0), ("größe", 1), ("orders", 2)]))
    rows = [(row.topic, list(row.partitions)) for row in read.assigned_partitions]
    assert rows == [("orders", [0, 2]), ("größe", [1])]


@given(st.binary())
def test_any_bytes_are_an_assignment_or_none(data: bytes) -> None:
    assert isinstance(partitions_of(data), list)


@given(st.lists(names, max_size=5))
def test_topics_of_a_subscription_are_written_and_read(topics: list[str]) -> None:
    written = encode_subscription(topics)
    assert read_topics(written, len(topics)) == (topics, written[: len(written) - 4])
    assert list(ConsumerProtocolSubscription.decode(written).topics) == topics


@given(st.binary(max_size=60))
def test_of_other_subscriptions_no_error_comes(raw: bytes) -> None:
    read_topics(raw, 100)


def test_a_subscription_of_more_topics_than_are_left_is_not_read() -> None:
    names = [f"t{number}" for number in range(11)]
    assert read_topics(encode_subscription(names), 10) == (None, b"")
    assert read_topics(encode_subscription(names[1:]), 10)[0] == names[1:]


@given(
    st.integers(0, 3),
    st.lists(names, max_size=4),
    st.dictionaries(names, st.frozensets(st.integers(0, 9), max_size=3), max_size=3),
    st.one_of(st.none(), names),
)
def test_a_subscription_of_any_version_is_read_whole(
    version: int, topics: list[str], owned: dict[str, frozenset[int]], rack_id: str | None
) -> None:
    row = ConsumerProtocolSubscription.TopicPartition
    rows = [row(topic=topic, partitions=sorted(some)) for topic, some in owned.items()]
    written = ConsumerProtocolSubscription(
        version=version, topics=topics, user_data=b"x", owned_partitions=rows, generation_id=7, rack_id=rack_id
    )
    read = read_subscription(bytes(written.encode(version=version)))
    assert read == (version, tuple(topics), owned if version >= 1 else {}, rack_id if version >= 3 else None)


@given(st.binary())
def test_any_bytes_are_read_as_a_whole_message_or_as_none(data: bytes) -> None:
    for read in (read_subscription(data), read_assignment(data)):
        assert read is None or isinstance(read, tuple)


def test_what_is_no_subscription_or_assignment() -> None:
    whole = encode_subscription(["orders"])
    assert read_subscription(b"\0\x09" + whole[2:]) is None  # of a later version it lacks what version 3 has
    assert read_subscription(b"\xff\xff" + whole[2:]) is None
    assert [read_subscription(whole[:size]) for size in range(len(whole))] == [None] * len(whole)
    many = MOST_PARTITIONS + 1
    assert read_subscription(encode_subscription(["t"] * many)) is None
    assert read_assignment(encode_assignment(("t", index) for index in range(many))) is None


def test_an_assignment_is_read_with_whether_it_has_user_data() -> None:
    written = encode_assignment([("a", 1), ("b", 0), ("a", 2)], 3)
    assert read_assignment(written) == ({"a": frozenset((1, 2)), "b": frozenset((0,))}, False)
    assert read_assignment(written[:-4] + b"\0\0\0\1x") == ({"a": frozenset((1, 2)), "b": frozenset((0,))}, True)
    assert read_assignment(b"") == ({}, False)
    assert read_assignment(b"zz") is None
