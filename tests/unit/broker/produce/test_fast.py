"""The fast path is an optimisation: with and without it a broker gives the same answers and keeps the same bytes."""

from __future__ import annotations

import asyncio
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.broker import CLIENT, TOPIC_ID, batch, image, running
from support.waiting import HUNG_S
from tailrace.wire import codec
from tailrace.wire.messages import FetchRequest, PreambleRequest, ProduceRequest

_small, _large = batch(b"a", b"b"), batch(b"x" * 5000)
_transactional = batch(b"t", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
_damaged = _small[:-1] + b"?"
_cut_short = _small[:20]
BATCHES: Sequence[bytes | None] = (
    _small, _large, batch(b"keyless"), b"", None, _damaged, _cut_short, _transactional, _small + _large,
    *(batch(b"%d" % n, producer_id=9, producer_epoch=0, base_sequence=n) for n in (0, 1, 2, 5)),
    batch(b"new", producer_id=9, producer_epoch=1, base_sequence=0),
)  # fmt: skip


def produce(version: int, acks: int, partition: int, records: bytes | None, name: str) -> tuple[Any, int]:
    topic = ProduceRequest.TopicProduceData
    row = topic.PartitionProduceData(index=partition, records=records)
    data = topic(name=name, topic_id=TOPIC_ID, partition_data=[row])
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=60_000, topic_data=[data]), version


def fetch(version: int, partition: int, offset: int, max_bytes: int, committed: bool) -> tuple[Any, int]:
    want = FetchRequest.FetchTopic.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, current_leader_epoch=-1
    )
    topic = FetchRequest.FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[want])
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, isolation_level=int(committed), session_epoch=-1, topics=[topic]
    )
    return request, version


PARTITIONS = st.sampled_from([0, 0, 0, 0, 1, 2, 9])
PRODUCES = st.builds(
    produce,
    st.sampled_from([12, 12, 13, 13, 9, 8, 7, 3]),
    st.sampled_from([1, 1, -1, 0, 2]),
    PARTITIONS,
    st.sampled_from(BATCHES),
    st.sampled_from(["t"] * 8 + ["nowhere", "__consumer_offsets"]),
)
FETCHES = st.builds(
    fetch,
    st.sampled_from([4, 7, 11, 12, 13, 16]),
    PARTITIONS,
    st.sampled_from([0, 0, 1, 2, 3, 5, 100]),
    st.sampled_from([0, 1, 100, 1 << 20]),
    st.booleans(),
)
# Those of one read are of one kind: whether a fetch finds what was produced just before it, the socket decides.
READS = st.lists(
    st.one_of(st.lists(PRODUCES, min_size=1, max_size=6), st.lists(FETCHES, min_size=1, max_size=6)),
    min_size=1,
    max_size=5,
)
TOPICS = st.sampled_from([{}, {}, {"flush.messages": "1"}, {"compression.type": "gzip"}, {"cleanup.policy": "compact"}])


async def conversation(
    reads: list[list[tuple[Any, int]]], configs: dict[str, str], fast: str
) -> tuple[list[bytes], Any]:
    """The answers that a client got, and what the log directory holds after it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        async with running(path, image(**configs), broker_fast_path=fast) as broker:
            reader, writer = await asyncio.open_unix_connection(broker.address.host)
            writer.write(codec.encode_request(PreambleRequest(**CLIENT._asdict()), 0, 0, "c"))
            number, answers = 0, [await frame(reader)]
            # Answered when all before them was appended, and is on the disk where flush.messages is set.
            fences = [produce(12, 1, partition, _small, "t") for partition in (0, 1)]
            for requests in [fences, *reads]:
                sent = [*requests, *fences] if isinstance(requests[0][0], ProduceRequest) else requests
                wanted = sum(not (isinstance(request, ProduceRequest) and request.acks == 0) for request, _ in sent)
                writer.write(
                    b"".join(
                        codec.encode_request(request, version, number + place, "c")
                        for place, (request, version) in enumerate(sent, 1)
                    )
                )
                number += len(sent)
                answers += [await frame(reader) for _ in range(wanted)]
                if not answers[-1]:
                    break
            writer.close()
        return answers, written(path)


def written(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*.log"))}


async def frame(reader: asyncio.StreamReader) -> bytes:
    """Nothing where the broker closed the connection."""
    try:
        async with asyncio.timeout(HUNG_S):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


@settings(max_examples=30, deadline=None)
@given(READS, TOPICS)
def test_the_fast_path_answers_and_writes_what_the_plain_one_does(
    reads: list[list[tuple[Any, int]]], configs: dict[str, str]
) -> None:
    async def both() -> list[Any]:
        return [await conversation(reads, configs, fast) for fast in ("true", "false")]

    (fast_answers, fast_log), (plain_answers, plain_log) = asyncio.run(both())
    assert fast_answers == plain_answers
    assert fast_log == plain_log
