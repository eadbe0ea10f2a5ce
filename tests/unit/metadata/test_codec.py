"""Metadata records as bytes: what goes in comes out, Kafka's own bytes, and nothing else is taken."""

import dataclasses
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.metadata import topic_id
from tailrace.metadata import codec
from tailrace.metadata import records as r

_INTS = {
    "partition_id": 31, "broker_id": 31, "leader": 31, "leader_epoch": 31, "partition_epoch": 31, "service_id": 31,
    "partition": 31, "owner": 31, "shard_epoch": 31, "broker_epoch": 63, "service_epoch": 63, "next_producer_id": 63,
    "port": 15, "security_protocol": 15, "min_supported_version": 15, "max_supported_version": 15, "feature_level": 15,
    "resource_type": 7, "mechanism": 7, "leader_recovery_state": 7, "fenced": 7, "in_controlled_shutdown": 7,
    "iterations": 31, "pattern_type": 7, "operation": 7, "permission_type": 7,
}  # fmt: skip
_INT32S = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4).map(tuple)


def fields_of(cls: type) -> st.SearchStrategy[Any]:
    return st.builds(cls, **{field.name: value_of(cls, field) for field in dataclasses.fields(cls)})


def value_of(cls: type, field: "dataclasses.Field[Any]") -> st.SearchStrategy[Any]:
    kind, name = str(field.type), field.name
    if "Endpoint" in kind:
        return st.lists(fields_of(r.Endpoint), max_size=2).map(tuple)
    if "BrokerFeature" in kind:
        return st.lists(fields_of(r.BrokerFeature), max_size=2).map(tuple)
    if "QuotaEntity" in kind:
        return st.lists(fields_of(r.QuotaEntity), max_size=2).map(tuple)
    arrays = st.lists(st.uuids(), max_size=3).map(tuple) if "UUID, ..." in kind else _INT32S
    if "tuple" in kind:
        return st.none() | arrays if "None" in kind else arrays
    if "UUID" in kind:
        return st.uuids()
    if "bytes" in kind:
        return st.binary(max_size=70)
    if "str" in kind:
        return st.none() | st.text() if "None" in kind else st.text()
    if "bool" in kind:
        return st.booleans()
    if "float" in kind:
        return st.floats(allow_nan=False)
    bits = _INTS[name]
    low = 0 if name == "port" else -(2**bits)
    return st.integers(low, 2**bits - 1)


RECORDS = st.one_of([fields_of(cls) for cls in get_args(r.MetadataRecord)])


@given(RECORDS)
def test_a_record_comes_back_as_it_went(record: r.MetadataRecord) -> None:
    assert codec.decode(codec.encode(record)) == record


@given(RECORDS, st.data())
def test_a_truncated_record_is_malformed(record: r.MetadataRecord, data: st.DataObject) -> None:
    encoded = codec.encode(record)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(codec.MalformedRecord):
        codec.decode(encoded[:cut])


@given(st.binary(max_size=60))
def test_any_bytes_are_a_record_or_malformed(data: bytes) -> None:
    try:
        record = codec.decode(data)
    except codec.MalformedRecord:
        return
    assert type(record) in get_args(r.MetadataRecord)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        # frame 1, key 2, version 0, compact "foo", id, no tags
        (r.TopicRecord("foo", topic_id(7)), "01 02 00 04 666f6f 00000000000040008000000000000007 00"),
        # frame 1, key 12, version 0, compact string, int16, no tags
        (r.FeatureLevelRecord("metadata.version", 25), "01 0c 00 11 6d657461646174612e76657273696f6e 0019 00"),
        # frame 1, key 5, version 2, partition, id, two tags: isr (0) and leader (1)
        (
            r.PartitionChangeRecord(1, topic_id(7), isr=(3,), leader=3),
            "01 05 02 00000001 00000000000040008000000000000007 02 00 05 02 00000003 01 04 00000003",
        ),
        # frame 1, key 17, version 2, broker, epoch, one tag: fenced (0) = -1
        (r.BrokerRegistrationChangeRecord(3, 9, fenced=-1), "01 11 02 00000003 0000000000000009 01 00 01 ff"),
        (r.ConfigRecord(2, "t", "k", None), "01 04 00 02 02 74 02 6b 00 00"),
    ],
)
def test_records_are_framed_as_kafka_frames_them(record: r.MetadataRecord, expected: str) -> None:
    assert codec.encode(record) == bytes.fromhex(expected.replace(" ", ""))


def test_a_tag_that_nobody_knows_is_skipped() -> None:
    data = codec.encode(r.NoOpRecord())[:-1] + bytes.fromhex("01 63 02 aabb".replace(" ", ""))
    assert codec.decode(data) == r.NoOpRecord()


@pytest.mark.parametrize("data", ["02 14 00 00", "01 63 00 00", "01 14 07 00", "01 14 00 00 00", "01 8080808080 00"])
def test_other_frames_keys_versions_and_trailing_bytes_are_malformed(data: str) -> None:
    with pytest.raises(codec.MalformedRecord):
        codec.decode(bytes.fromhex(data.replace(" ", "")))
