"""Partitions of group ids, as java.lang.String.hashCode and Kafka's Utils.abs give them."""

import pytest

from tailrace.state import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("console-consumer-1", 35782224),
        ("polygenelubricants", -(2**31)),
        ("😀", 1772899),
    ],
)
def test_hashes_are_javas(text: str, number: int) -> None:
    assert java_hash(text) == number


def test_the_smallest_hash_is_in_partition_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_partitions_are_those_kafka_chose() -> None:
    assert [partition_for(group, 50) for group in ("g1", "s1", "j3")] == [42, 14, 37]
