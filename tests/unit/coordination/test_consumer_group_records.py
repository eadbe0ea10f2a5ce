"""Records of consumer groups (KIP-848): byte for byte what the classes of Apache Kafka 4.4.0 write."""

import contextlib
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.coordination.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRecordRemoved,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    ConsumerGroupValue,
    PartitionRacks,
    TopicMetadata,
    TopicPartitions,
)
from tailrace.coordination.fields import BadRecord
from tailrace.coordination.group_records import decode, encode

TOPIC_ID = UUID("acf41491079f4925830e0c2740fb8070")
MEMBER = ConsumerGroupMemberMetadata("g", "m", "i", None, "c", "/127.0.0.1", ("a", "b"), None, 300_000, "uniform")
BY_REGEX = ConsumerGroupMemberMetadata(
    "g",
    "m",
    None,
    "r",
    "c",
    "h",
    (),
    "a.*",
    -1,
    None,
    ClassicMemberMetadata(45_000, (ClassicProtocol("range", b"\1\2"),)),
)
ASSIGNED = ConsumerGroupCurrentMemberAssignment(
    "g", "m", 8, 7, 1, (TopicPartitions(TOPIC_ID, (0, 1), (7, 8)),), (TopicPartitions(TOPIC_ID, (2,)),)
)
CAPTURED: list[tuple[ConsumerGroupValue, str, str]] = [
    (ConsumerGroupMetadata("g", 7), "0003000167", "00000000000700"),
    (ConsumerGroupMetadata("g", 7, -5), "0003000167", "000000000007010008fffffffffffffffb"),
    (
        ConsumerGroupPartitionMetadata("g", (TopicMetadata(TOPIC_ID, "t1", 2, (PartitionRacks(1, ("r1", "r2")),)),)),
        "0004000167",
        "000002acf41491079f4925830e0c2740fb807003743100000002020000000103037231037232000000",
    ),
    (MEMBER, "000500016700016d", "000002690002630b2f3132372e302e302e31030261026200000493e008756e69666f726d00"),
    (
        BY_REGEX,
        "000500016700016d",
        "0000000272026302680104612e2affffffff00010011010000afc8020672616e67650301020000",
    ),
    (ConsumerGroupTargetAssignmentMetadata("g", 8), "0006000167", "00000000000800"),
    (
        ConsumerGroupTargetAssignmentMetadata("g", 8, 1795269604133),
        "0006000167",
        "000000000008010008000001a1fe683325",
    ),
    (
        ConsumerGroupTargetAssignmentMember("g", "m", (TopicPartitions(TOPIC_ID, (0, 300)),)),
        "000700016700016d",
        "000002acf41491079f4925830e0c2740fb807003000000000000012c0000",
    ),
    (
        ASSIGNED,
        "000800016700016d",
        "000000000008000000070102acf41491079f4925830e0c2740fb80700300000000000000010100090300000007000000"
        "0802acf41491079f4925830e0c2740fb807002000000020000",
    ),
    (
        replace(
            ASSIGNED,
            state=0,
            assigned_partitions=(TopicPartitions(TOPIC_ID, (0,), None),),
            partitions_pending_revocation=(),
        ),
        "000800016700016d",
        "000000000008000000070002acf41491079f4925830e0c2740fb80700200000000010001000100",
    ),
    (
        ConsumerGroupRegularExpression("g", "a.*", ("a1",), 12345, 1795269604133),
        "00100001670003612e2a",
        "0000020361310000000000003039000001a1fe68332500",
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), CAPTURED, ids=lambda each: type(each).__name__)
def test_records_are_byte_for_byte_kafkas(record: ConsumerGroupValue, key: str, value: str) -> None:
    raw = (bytes.fromhex(key), bytes.fromhex(value))
    assert encode(record) == raw
    assert decode(*raw) == record
    removed = ConsumerGroupRecordRemoved(record.key)
    assert encode(removed) == (raw[0], None)
    assert decode(raw[0], None) == removed


@given(st.sampled_from([encode(record) for record, _, _ in CAPTURED]), st.data())
def test_damaged_records_are_bad_records_and_nothing_worse(raw: tuple[bytes, bytes], data: st.DataObject) -> None:
    key, value = raw
    damaged = bytearray(value)
    damaged[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    for hostile in (bytes(damaged), value[: data.draw(st.integers(0, len(value)))]):
        with contextlib.suppress(BadRecord):
            decode(key, hostile)


def test_a_record_with_fewer_epochs_than_partitions_is_a_bad_record() -> None:
    assigned = (TopicPartitions(UUID(int=1), (0, 1), (3,)),)
    record = ConsumerGroupCurrentMemberAssignment("g", "m", 3, 2, 0, assigned, ())
    with pytest.raises(BadRecord):
        decode(*encode(record))
