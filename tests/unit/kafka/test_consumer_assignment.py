"""The bytes of a member's assignment: partitions, or nothing where another format is in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from tailrace.kafka.consumer_assignment import partitions_of


def test_the_partitions_that_a_client_wrote_are_read() -> None:
    topic = ConsumerProtocolAssignment.TopicPartition
    written = ConsumerProtocolAssignment(
        version=1,
        assigned_partitions=[topic(topic="orders", partitions=[0, 2]), topic(topic="größe", partitions=[1])],
        user_data=b"x",
    )
    assert partitions_of(bytes(written.encode(version=1))) == [("orders", 0), ("orders", 2), ("größe", 1)]


@given(st.binary())
def test_any_bytes_are_an_assignment_or_none(data: bytes) -> None:
    assert isinstance(partitions_of(data), list)
