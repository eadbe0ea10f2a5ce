"""The consumers' own bytes: topics and partitions, or nothing where another format is in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from tailrace.kafka.consumer_protocol import encode_assignment, encode_subscription, partitions_of, read_topics

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
