"""Batches whose records must be looked at hold up nobody but their own connection, and keep its order."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.broker import TOPIC_ID, Running, batch, image, running
from support.records_field import iterate_all
from support.waiting import HUNG_S, turns_until
from tailrace.errors import ApiError, ErrorCode
from tailrace.log.config import LogConfig
from tailrace.log.limits import Limits
from tailrace.net.client import Client
from tailrace.records.batch import HEADER_SIZE, pack, read_header
from tailrace.records.compression import Codec
from tailrace.records.record import Record, build
from tailrace.wire import codec
from tailrace.wire.messages import ProduceRequest
from tailrace_broker.partitions.partition import Fetched, Partition
from tailrace_broker.produce import plain as handler
from tailrace_broker.produce import validation_threads
from tailrace_broker.produce.validation_threads import ClientBatch, Examination, _Stopped

NOW = 1_700_000_000_000
LIMITS = Limits(LogConfig(compression_type="gzip"))


class Gate:
    """Threads that examine wait for `go`; nothing waits on the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on_step: Callable[[], None] = lambda: None
        self.asked, self.go = threading.Event(), threading.Event()
        examine = Limits.examine

        def slow(limits: Limits, *arguments: Any) -> Any:
            assert threading.current_thread().name.startswith("examiner")
            self.on_step = arguments[-1]
            self.asked.set()
            assert self.go.wait(HUNG_S)
            return examine(limits, *arguments)

        monkeypatch.setattr(Limits, "examine", slow)

    def is_stopped(self) -> bool:
        """Whether the examination that waits will end at its next step."""
        try:
            self.on_step()
        except Exception:  # noqa: BLE001  # of the examination's own
            return True
        return False


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


def keyed(*values: bytes, compression: Codec = Codec.NONE) -> bytes:
    return bytes(build([Record(timestamp=NOW, key=b"k", value=value) for value in values], compression=compression))


def long(mark: bytes = b"long", compression: Codec = Codec.ZSTD) -> bytes:
    """A few hundred bytes that are a few hundred thousand."""
    return keyed(mark, bytes(300_000), compression=compression)


def request(records: bytes, *, acks: int = 1, partition: int = 0) -> ProduceRequest:
    data = ProduceRequest.TopicProduceData
    row = data.PartitionProduceData(index=partition, records=records)
    topics = [data(name="t", topic_id=TOPIC_ID, partition_data=[row])]
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=10_000, topic_data=topics)


def produce(client: Client, records: bytes, **fields: Any) -> asyncio.Task[Any]:
    async def ask() -> Any:
        answer = await client.ask(request(records, **fields), timeout_ms=60_000, version=9)
        return answer.responses[0].partition_responses[0]

    return asyncio.create_task(ask())


async def values(broker: Running, partition: int = 0) -> list[bytes | None]:
    fetched = await broker.fetch(partition, 0)
    return [record.value for record in iterate_all(bytes(fetched.records or b""))]


async def begun(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.asked.wait, HUNG_S)


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_long_look_holds_up_its_own_connection_alone(tmp_path: Path, gate: Gate, acks: int) -> None:
    async with running(tmp_path, image(**{"cleanup.policy": "compact"})) as broker:
        first = produce(broker.client, long(), acks=acks)
        await begun(gate)
        second = produce(broker.client, keyed(b"behind"), acks=acks)
        other = await produce(broker.service, keyed(b"other"), acks=acks)
        assert (other.error_code, other.base_offset) == (0, 0)
        assert not first.done() and not second.done() and len(broker.listener.data_path.examiner) == 1
        gate.go.set()
        answers = await asyncio.gather(first, second)
        assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 1), (0, 3)]
        assert await values(broker) == [b"other", b"long", bytes(300_000), b"behind"]
        assert len(broker.listener.data_path.examiner) == 0


async def test_a_small_batch_is_looked_at_on_the_way(tmp_path: Path, gate: Gate) -> None:
    async with running(tmp_path, image(**{"cleanup.policy": "compact"})) as broker:
        for compression in Codec:
            assert (await produce(broker.client, keyed(b"small", compression=compression))).error_code == 0
        assert (await produce(broker.client, batch(b"keyless"))).error_code == ErrorCode.INVALID_RECORD
        assert not gate.asked.is_set() and len(await values(broker)) == len(Codec)


async def test_what_the_thread_finds_wrong_is_answered(tmp_path: Path, gate: Gate) -> None:
    async with running(tmp_path, image(**{"cleanup.policy": "compact"})) as broker:
        gate.go.set()
        refused = await produce(broker.client, batch(b"a", bytes(300_000), compression=Codec.GZIP))
        assert (refused.error_code, refused.base_offset) == (ErrorCode.INVALID_RECORD, -1)
        assert [row.batch_index for row in refused.record_errors] == [0, 1] and gate.asked.is_set()
        bomb = keyed(bytes(70_000_000), compression=Codec.ZSTD)
        refused = await produce(broker.client, bomb)
        assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE and "67108864 bytes" in refused.error_message
        assert await values(broker) == []


async def test_what_is_compressed_anew_is_done_there_too(tmp_path: Path, gate: Gate) -> None:
    async with running(tmp_path, image(**{"compression.type": "gzip"})) as broker:
        gate.go.set()
        for records in (long(), long(compression=Codec.NONE)):
            gate.asked.clear()
            assert (await produce(broker.client, records)).error_code == 0 and gate.asked.is_set()
        gate.asked.clear()
        assert (await produce(broker.client, long(compression=Codec.GZIP))).error_code == 0
        assert not gate.asked.is_set()  # it is as the topic wants it
        fetched = bytes((await broker.fetch(0, 0)).records)
        assert read_header(fetched).codec == Codec.GZIP and len(list(iterate_all(fetched))) == 6


async def test_a_time_in_the_future_is_refused_without_a_look_at_much(tmp_path: Path, gate: Gate) -> None:
    """The header says it already; who is to blame is not worth holding up others."""
    async with running(tmp_path) as broker:
        ahead = [Record(timestamp=2**60, value=bytes(300_000))]
        refused = await produce(broker.client, bytes(build(ahead, compression=Codec.ZSTD)))
        assert (refused.error_code, refused.record_errors) == (ErrorCode.INVALID_TIMESTAMP, [])
        assert not gate.asked.is_set()


async def test_who_leads_no_more_when_the_look_is_over_says_so(tmp_path: Path, gate: Gate) -> None:
    async with running(tmp_path, image(**{"cleanup.policy": "compact"})) as broker:
        asked = produce(broker.client, long())
        await begun(gate)
        topics = broker.follower.image.topics
        moved = replace(topics["t"].partitions[0], leader=1, leader_epoch=9)
        t = replace(topics["t"], partitions=(moved, *topics["t"].partitions[1:]))
        broker.follower.move(topics={**topics, "t": t})
        gate.go.set()
        assert (await asked).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_of_who_leaves_nothing_is_appended(tmp_path: Path, gate: Gate) -> None:
    async with running(tmp_path, image(**{"cleanup.policy": "compact"})) as broker:
        asked = produce(broker.client, long())
        await begun(gate)
        await broker.client.close()
        with pytest.raises(ConnectionError):
            await asked
        gate.go.set()
        await turns_until(lambda: len(broker.listener.data_path.examiner) == 0)
        partition = next(one for one in broker.broker.topics.partitions() if (one.topic, one.index) == ("t", 0))
        assert partition.log.log_end_offset == 0 and len(broker.listener.data_path.examiner) == 0


async def test_without_acks_the_next_request_waits_as_well(tmp_path: Path, gate: Gate) -> None:
    async with running(tmp_path, image(**{"cleanup.policy": "compact"})) as broker:
        wire = await broker.open_wire()
        wire.write(codec.encode_request(request(long(), acks=0), 9, 1, "c"))
        await begun(gate)
        second = produce(broker.client, keyed(b"behind"))
        gate.go.set()
        assert (await second).base_offset == 2
        assert [value for value in await values(broker) if value is not None and len(value) < 9] == [b"long", b"behind"]


async def test_what_was_appended_before_the_look_was_over_is_not_acknowledged_by_who_led_it(
    tmp_path: Path, gate: Gate
) -> None:
    """Meanwhile the partition beside it got another leader, which cut what nobody else had, and other records."""
    async with running(tmp_path, image(**{"cleanup.policy": "compact"})) as broker:
        topics = broker.follower.image.topics
        both = replace(topics["t"].partitions[0], replicas=(0, 1), isr=(0, 1), leader_epoch=8, partition_epoch=8)
        t = replace(topics["t"], partitions=(both, *topics["t"].partitions[1:]))
        broker.follower.move(topics={**topics, "t": t})
        await broker.release()
        data = ProduceRequest.TopicProduceData
        rows = [data.PartitionProduceData(index=n, records=r) for n, r in enumerate((keyed(b"short"), long()))]
        topic_data = [data(name="t", topic_id=TOPIC_ID, partition_data=rows)]
        asked = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=topic_data)
        answer = asyncio.create_task(broker.client.ask(asked, timeout_ms=60_000, version=9))
        await begun(gate)
        partition = broker.broker.topics.by_name[b"t"].partitions[0]
        assert partition.log.log_end_offset == 1 and partition.high_watermark == 0
        moved = replace(both, leader=1, leader_epoch=9)
        broker.follower.move(topics={**topics, "t": replace(t, partitions=(moved, *t.partitions[1:]))})
        partition.fetched(Fetched(0, 0, 0, diverging=(8, 0)), NOW)
        other = keyed(b"other")
        partition.fetched(Fetched(0, 1, 0, other[:12] + (9).to_bytes(4) + other[16:]), NOW)
        assert partition.high_watermark == 1
        gate.go.set()
        answers = (await answer).responses[0].partition_responses
        assert [row.error_code for row in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, 0]


async def test_a_large_batch_that_nobody_has_to_look_into_waits_for_no_thread(tmp_path: Path, gate: Gate) -> None:
    async with running(tmp_path, image(**{"compression.type": "gzip"})) as broker:
        many = keyed(*[b""] * 2000, compression=Codec.GZIP)
        large = keyed(random.Random(1).randbytes(200_000), compression=Codec.GZIP)
        for records in (many, large):
            assert (await produce(broker.client, records)).error_code == 0
        assert not gate.asked.is_set()


def test_what_nobody_waits_for_any_more_is_not_begun() -> None:
    examination = Examination([ClientBatch(LIMITS, long()), ClientBatch(LIMITS, long())], NOW)
    examination.stop()
    with pytest.raises(_Stopped):
        examination.run()
    assert examination.verdicts == []


@pytest.mark.parametrize("compression", list(Codec))
@pytest.mark.parametrize("false_ms", [-1, NOW - 9, NOW + 1000, NOW + 10**9])
def test_a_compacted_topic_believes_the_records_about_the_largest_timestamp(compression: Codec, false_ms: int) -> None:
    """As Kafka does: a look-up by time and retention.ms would believe the header."""
    sent = keyed(b"v", compression=compression)
    false = pack(read_header(sent)._replace(max_timestamp=false_ms), sent[HEADER_SIZE:])
    assert bytes(Limits(LogConfig(cleanup_policy="compact")).examine(false, NOW)) == sent


def test_a_refusal_keeps_nothing_of_what_was_decompressed() -> None:
    """An exception holds its frames, and those all that they worked on, be it 64 MiB."""
    keyless = bytes(build([Record(timestamp=NOW, value=bytes(300_000))], compression=Codec.ZSTD))
    torn = long()[:-9] + bytes(9)
    for records in (keyless, torn):
        examination = Examination([ClientBatch(Limits(LogConfig(cleanup_policy="compact")), records)], NOW)
        examination.run()
        (refused,) = examination.verdicts
        assert isinstance(refused, ApiError)
        assert (refused.__traceback__, refused.__context__, refused.__cause__) == (None, None, None)


@pytest.mark.parametrize("plain_bytes", [10_000, 100_000], ids=["at once", "in a thread"])
async def test_of_what_grows_no_more_is_held_at_once_than_is_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain_bytes: int
) -> None:
    """A hundred bytes for each of ten thousand partitions may become gigabytes where compression.type is another."""
    for module in (validation_threads, handler):
        monkeypatch.setattr(module, "MOST_HELD_BYTES", 3 * plain_bytes, raising=False)
    held, append = list[int](), Partition.append

    def counted(partition: Partition, batches: Any, *arguments: Any, **named: Any) -> Any:
        held.append(sum(map(len, batches)))
        return append(partition, batches, *arguments, **named)

    monkeypatch.setattr(Partition, "append", counted)
    async with running(tmp_path, image(**{"compression.type": "uncompressed"})) as broker:
        data = ProduceRequest.TopicProduceData
        zeros = [keyed(bytes([n]), bytes(plain_bytes), compression=Codec.ZSTD) for n in range(10)]
        rows = [data.PartitionProduceData(index=0, records=records) for records in zeros]
        topics = [data(name="t", topic_id=TOPIC_ID, partition_data=rows)]
        asked = ProduceRequest(transactional_id=None, acks=1, timeout_ms=10_000, topic_data=topics)
        answer = await broker.client.ask(asked, timeout_ms=60_000, version=9)
        answers = answer.responses[0].partition_responses
        assert [(row.error_code, row.base_offset) for row in answers] == [(0, 2 * n) for n in range(10)]
        assert len(held) == 4 and max(held) < 4 * plain_bytes
        assert broker.broker.metrics.bytes_in == sum(map(len, zeros))  # what came, as in Kafka


@pytest.mark.parametrize(("records", "count"), [(1, 240), (600, 20)])
async def test_of_many_batches_only_some_are_looked_at_on_the_way(
    tmp_path: Path, gate: Gate, records: int, count: int
) -> None:
    """A request of 4 MB has room for 40,000, and a batch of 600 records takes as long as ten: a broker was fenced."""
    async with running(tmp_path, image(**{"cleanup.policy": "compact"})) as broker:
        data = ProduceRequest.TopicProduceData
        small = keyed(*[b"v"] * records)
        rows = [data.PartitionProduceData(index=0, records=small if n % 9 else small[:-1]) for n in range(count)]
        topics = [data(name="t", topic_id=TOPIC_ID, partition_data=rows)]
        asked = ProduceRequest(transactional_id=None, acks=1, timeout_ms=10_000, topic_data=topics)
        answer = asyncio.create_task(broker.client.ask(asked, timeout_ms=60_000, version=9))
        await begun(gate)
        gate.go.set()
        answers = (await answer).responses[0].partition_responses
        offsets = [row.base_offset for row in answers if not row.error_code]
        assert offsets == list(range(0, records * (count - len(range(0, count, 9))), records))
        assert len(broker.listener.data_path.examiner) == 0


async def test_what_nobody_waits_for_anyway_is_appended_though_its_client_has_left(tmp_path: Path, gate: Gate) -> None:
    """A producer with acks=0 that is closed behind a relaying gateway has sent all that it was asked to."""
    async with running(tmp_path, image(**{"cleanup.policy": "compact"})) as broker:
        wire = await broker.open_wire()
        wire.write(codec.encode_request(request(long(), acks=0), 9, 1, "c"))
        await begun(gate)
        await broker.client.close()
        gate.go.set()
        await turns_until(lambda: len(broker.listener.data_path.examiner) == 0)
        partition = next(one for one in broker.broker.topics.partitions() if (one.topic, one.index) == ("t", 0))
        assert partition.log.log_end_offset == 2 and len(broker.listener.data_path.examiner) == 0


async def test_of_those_that_have_left_not_too_many_are_looked_at(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation_threads, "_MOST_LEFT_BEHIND", 10)
    async with running(tmp_path, image(**{"cleanup.policy": "compact"})) as broker:
        wire = await broker.open_wire()
        wire.write(codec.encode_request(request(long(), acks=0), 9, 1, "c"))
        await begun(gate)
        await broker.client.close()
        await turns_until(gate.is_stopped)
        gate.go.set()
