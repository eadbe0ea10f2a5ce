"""Records of `__consumer_offsets`: byte for byte what Apache Kafka 4.3.1 wrote for the same requests."""

import contextlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.coordination.consumer_group_records import ConsumerGroupMetadata
from tailrace.coordination.fields import BadRecord
from tailrace.coordination.group_records import (
    GroupMetadata,
    GroupRecord,
    GroupRemoved,
    MemberMetadata,
    OffsetCommitted,
    OffsetRemoved,
    decode,
    encode,
)

MEMBER = "raw-49744875-020f-47e4-b336-4683c7b8bb94"
CAPTURED: list[tuple[GroupRecord, str, str | None]] = [
    (  # OffsetCommit v4 with a retention time
        OffsetCommitted("s4", "t1", 0, 5, -1, "m", 1795269598506, 1795274598506),
        "0001000273340002743100000000",
        "0001000000000000000500016d000001a1fe681d2a000001a1feb4686a",
    ),
    (
        OffsetCommitted("j3", "t1", 0, 5, 0, "m", 1795269604133, topic_id=UUID("acf41491079f4925830e0c2740fb8070")),
        "000100026a330002743100000000",
        "0004000000000000000500000000026d000001a1fe683325010010acf41491079f4925830e0c2740fb8070",
    ),
    (OffsetRemoved("j3", "t1", 0), "000100026a330002743100000000", None),
    (
        GroupMetadata("j3", "", 0, None, None, 1795269601534),
        "000200026a33",
        "0003000000000000ffffffff000001a1fe6828fe00000000",
    ),
    (
        GroupMetadata(
            "j3",
            "consumer",
            1,
            "range",
            MEMBER,
            1795269601725,
            (
                MemberMetadata(
                    MEMBER,
                    None,
                    "raw",
                    "/127.0.0.1",
                    10_000,
                    10_000,
                    bytes.fromhex("00000000000100027431ffffffff"),
                    bytes.fromhex("000000000001000274310000000100000000ffffffff"),
                ),
            ),
        ),
        "000200026a33",
        "00030008636f6e73756d657200000001000572616e676500287261772d34393734343837352d303230662d343765342d623333362d34363833"
        "6337623862623934000001a1fe6829bd0000000100287261772d34393734343837352d303230662d343765342d623333362d34363833633762"
        "3862623934ffff0003726177000a2f3132372e302e302e3100002710000027100000000e00000000000100027431ffffffff00000016000000"
        "000001000274310000000100000000ffffffff",
    ),
    (GroupRemoved("j3"), "000200026a33", None),
]


@pytest.mark.parametrize(("record", "key", "value"), CAPTURED, ids=lambda each: type(each).__name__)
def test_records_are_byte_for_byte_kafkas(record: GroupRecord, key: str, value: str | None) -> None:
    raw = (bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    assert encode(record) == raw
    assert decode(*raw) == record


# Values of older and newer Kafkas: (value, what it says)
OTHER_VERSIONS = [
    ("0000" "0000000000000005" "0001" "6d" "0000000000000009", OffsetCommitted("j3", "t1", 0, 5, -1, "m", 9)),
    ("0002" "0000000000000005" "0001" "6d" "0000000000000009", OffsetCommitted("j3", "t1", 0, 5, -1, "m", 9)),
    ("0003" "0000000000000005" "00000007" "0001" "6d" "0000000000000009", OffsetCommitted("j3", "t1", 0, 5, 7, "m", 9)),
    ("0004" "0000000000000005" "00000007" "026d" "0000000000000009" "00", OffsetCommitted("j3", "t1", 0, 5, 7, "m", 9)),
    (  # an unknown tag is passed over
        "0004" "0000000000000005" "00000007" "02" "6d" "0000000000000009" "01" "05" "02" "abcd",
        OffsetCommitted("j3", "t1", 0, 5, 7, "m", 9),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("value", "record"), OTHER_VERSIONS)
def test_offsets_of_every_version_are_read(value: str, record: OffsetCommitted) -> None:
    key, _ = encode(record)
    assert decode(key, bytes.fromhex(value)) == record


@pytest.mark.parametrize(
    ("version", "timeouts"), [(0, "00002710"), (1, "00001388" "00002710"), (2, "00001388" "00002710")]
)  # fmt: skip
def test_groups_of_older_versions_are_read(version: int, timeouts: str) -> None:
    stamp = "0000000000000009" if version >= 2 else ""
    raw = f"000{version}0001630000000300017200016d" + stamp + "00000001"
    raw += "00016d000161000162" + timeouts + "00000001aa00000001bb"
    found = decode(bytes.fromhex("000200026a33"), bytes.fromhex(raw))
    member = MemberMetadata("m", None, "a", "b", -1 if version == 0 else 5_000, 10_000, b"\xaa", b"\xbb")
    assert found == GroupMetadata("j3", "c", 3, "r", "m", 9 if version >= 2 else -1, (member,))


def test_a_flexible_group_is_read() -> None:
    raw = "00040263000000030272026d000000000000000902"
    raw += "026d0002610262000013880000271002aa02bb0000"
    found = decode(bytes.fromhex("000200026a33"), bytes.fromhex(raw))
    member = MemberMetadata("m", None, "a", "b", 5_000, 10_000, b"\xaa", b"\xbb")
    assert found == GroupMetadata("j3", "c", 3, "r", "m", 9, (member,))


def test_keys_of_other_types_are_passed_over() -> None:
    assert decode(bytes.fromhex("00090001aa"), b"anything") is None


def test_a_consumer_group_of_kafkas_log_is_read() -> None:
    key = bytes.fromhex("000300026a33")  # as Apache Kafka 4.3.1 wrote it
    value = bytes.fromhex("0000000000040100081122334455667788")
    assert decode(key, value) == ConsumerGroupMetadata("j3", 4, 0x1122334455667788)


names = st.text(max_size=20)
ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
members = st.builds(
    MemberMetadata, names, st.none() | names, names, names, ints, ints, st.binary(max_size=99), st.binary(max_size=99)
)


records: st.SearchStrategy[GroupRecord] = st.one_of(
    st.builds(GroupMetadata, names, names, ints, st.none() | names, st.none() | names, longs, st.tuples(members)),
    st.builds(OffsetCommitted, names, names, ints, longs, ints, st.text(max_size=200), longs),
    st.builds(OffsetRemoved, names, names, ints),
    st.builds(GroupRemoved, names),
)


@given(records)
def test_what_is_encoded_is_decoded(record: GroupRecord) -> None:
    assert decode(*encode(record)) == record


@given(st.sampled_from([encode(record) for record, _, value in CAPTURED if value is not None]), st.data())
def test_damaged_records_are_bad_records_and_nothing_worse(raw: tuple[bytes, bytes], data: st.DataObject) -> None:
    key, value = raw
    damaged = bytearray(value)
    damaged[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(value)))
    for hostile in (bytes(damaged), bytes(damaged)[:cut]):
        with contextlib.suppress(BadRecord):
            decode(key, hostile)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_garbage_is_a_bad_record_and_nothing_worse(key: bytes, value: bytes) -> None:
    with contextlib.suppress(BadRecord):
        decode(key, value)
