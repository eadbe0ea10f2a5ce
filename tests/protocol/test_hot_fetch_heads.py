"""Fetch requests that are recognised by their bytes mean what the strict decoder says, and get the same answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from support.pieces import whole
from tailrace.wire.codec import encode_request
from tailrace.wire.header import skip_request_header
from tailrace.wire.hot.fetch import Fetch, PartitionData, decode_fetch, encode_fetch_answer
from tailrace.wire.hot.fetch_heads import FetchHead, FetchHeads, head_of
from tailrace.wire.malformed import Malformed
from tailrace.wire.messages import FetchRequest

VERSIONS = range(12, 19)
ID = UUID(int=0x0123456789ABCDEF0123456789ABCDEF)


@dataclass
class Asked:
    """What a test varies."""

    topic: str = "topic"
    partitions: tuple[int, ...] = (3,)
    offset: int = 42
    session_epoch: int = -1
    level: int = 0
    rack: str = ""
    max_bytes: int = 1_000_000
    last_epoch: int = -1


def body_of(version: int, asked: Asked) -> memoryview:
    topic = FetchRequest.FetchTopic
    rows = [
        topic.FetchPartition(
            partition=index,
            current_leader_epoch=7,
            fetch_offset=asked.offset,
            last_fetched_epoch=asked.last_epoch,
            partition_max_bytes=65_536,
        )
        for index in asked.partitions
    ]
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=asked.max_bytes,
        isolation_level=asked.level,
        session_id=0,
        session_epoch=asked.session_epoch,
        topics=[topic(topic=asked.topic, topic_id=ID, partitions=rows)],
        forgotten_topics_data=[],
        rack_id=asked.rack,
    )
    frame = memoryview(encode_request(request, version, 9, "c"))[4:]
    return frame[skip_request_header(frame)[3] :]


def learned(heads: FetchHeads, version: int, asked: Asked) -> FetchHead:
    body = body_of(version, asked)
    return heads.learn(version, body, decode_fetch(version, body))


def meaning(head: FetchHead) -> tuple[Any, ...]:
    return (
        head.key, head.index, head.leader_epoch, head.last_epoch,
        head.max_bytes, head.min_bytes, head.committed, head.rack_id,
    )  # fmt: skip


def meaning_of(version: int, request: Fetch) -> tuple[Any, ...]:
    return meaning(head_of(version, request))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "asked", [Asked(), Asked(topic="x" * 125), Asked(level=1), Asked(rack="r1"), Asked(last_epoch=2), Asked(offset=-5)]
)
def test_what_is_recognised_means_what_the_decoder_says(version: int, asked: Asked) -> None:
    heads = FetchHeads()
    assert heads.read(version, body_of(version, asked)) is None
    learned(heads, version, asked)
    for offset in (0, 1 << 40, -1, asked.offset):
        asked.offset = offset
        body = body_of(version, asked)
        found = heads.read(version, body)
        assert found is not None
        request = decode_fetch(version, body)
        assert (meaning(found[0]), found[1]) == (
            meaning_of(version, request),
            request.topics[0][1][0].fetch_offset,
        )


@pytest.mark.parametrize("version", VERSIONS)
def test_one_changed_byte_is_never_recognised_as_something_else(version: int) -> None:
    heads = FetchHeads()
    learned(heads, version, Asked())
    body, recognised = body_of(version, Asked()), 0
    for at in range(len(body)):
        for bit in range(8):
            changed = bytearray(body)
            changed[at] ^= 1 << bit
            found = heads.read(version, memoryview(changed))
            if found is not None:
                request = decode_fetch(version, memoryview(changed))
                assert meaning(found[0]) == meaning_of(version, request)
                assert found[1] == request.topics[0][1][0].fetch_offset
                recognised += 1
    assert recognised == 64  # the offset's bits


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_ends_early_or_late_is_not_recognised(version: int) -> None:
    heads = FetchHeads()
    learned(heads, version, Asked())
    body = bytes(body_of(version, Asked()))
    for size in range(len(body)):
        assert heads.read(version, memoryview(body[:size])) is None
    assert heads.read(version, memoryview(body + b"\x00")) is None
    with pytest.raises(Malformed):
        decode_fetch(version, memoryview(body + b"\x00"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("asked", [Asked(partitions=(3, 4)), Asked(session_epoch=0), Asked(partitions=())])
def test_sessions_and_several_partitions_are_not_recognised(version: int, asked: Asked) -> None:
    heads = FetchHeads()
    learned(heads, version, Asked())
    assert heads.read(version, body_of(version, asked)) is None


def test_versions_do_not_mix() -> None:
    heads = FetchHeads()
    learned(heads, 13, Asked())
    assert bytes(body_of(13, Asked())) == bytes(body_of(14, Asked()))
    assert heads.read(14, body_of(14, Asked())) is None


@pytest.mark.parametrize("version", [4, 11])
def test_older_versions_are_read_each_time(version: int) -> None:
    heads = FetchHeads()
    head = learned(heads, version, Asked())
    assert heads.read(version, body_of(version, Asked())) is None
    assert head.key == b"topic"


@pytest.mark.parametrize("version", [4, 11, *VERSIONS])
@pytest.mark.parametrize("size", [1, 126, 127, 128, 16_384, 3_000_000])
@pytest.mark.parametrize("level", [0, 1])
def test_the_answer_is_the_encoders(version: int, size: int, level: int) -> None:
    head, records = learned(FetchHeads(), version, Asked(level=level)), bytes(size)
    row = PartitionData(3, 0, 100, 100, 17, records, None, bool(level))
    expected = encode_fetch_answer(version, 5, 0, 0, [(head.key, [row])])
    assert whole(head.answer(5, 100, 17, records)) == whole(expected)


def test_there_is_a_limit_to_what_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.wire.hot.fetch_heads._MAX_HEADS", 2)
    heads = FetchHeads()
    for index in range(3):
        learned(heads, 12, Asked(partitions=(index,)))
    known = [heads.read(12, body_of(12, Asked(partitions=(index,)))) is not None for index in range(3)]
    assert known == [False, False, True]
    learned(heads, 12, Asked(rack="r" * 120, topic="x" * 125))
    assert heads.read(12, body_of(12, Asked(rack="r" * 120, topic="x" * 125))) is None  # too long to be kept


def test_racks_are_no_way_to_have_more_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.wire.hot.fetch_heads._MAX_HEADS", 5)
    heads = FetchHeads()
    for number in range(103):
        learned(heads, 12, Asked(rack=f"rack-{number}"))
    known = [heads.read(12, body_of(12, Asked(rack=f"rack-{number}"))) is not None for number in range(103)]
    assert sum(known) <= 5 and known[-1]
