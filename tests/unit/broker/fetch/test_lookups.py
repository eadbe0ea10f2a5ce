"""Lookups by timestamp, and walks through damaged segments, hold up nobody, whatever becomes of the log meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.broker import TOPIC_ID, Running, batch, image, running, topic
from support.waiting import HUNG_S, turns_until
from tailrace.errors import ErrorCode
from tailrace.log import lookup
from tailrace.log.filesystem.real import RealFile
from tailrace.metadata.image import PartitionImage, TopicImage
from tailrace.net.client import Client
from tailrace.records.batch import split
from tailrace.records.compression import Codec
from tailrace.wire.messages import ListOffsetsRequest
from tailrace_broker.fetch.lookups import Lookups
from tailrace_broker.handlers.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP

NOW = 1_700_000_000_000
LATER = NOW + 60


class SlowDisk:
    """Reads in the threads of lookups wait for `go`; the event loop finds all it asks for in the page cache.

    in_haste: lookups try there first, as they do; else all have to go to the threads.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, error: OSError | None = None, *, in_haste: bool = False
    ) -> None:
        if not in_haste:
            monkeypatch.setattr(lookup, "BYTES_IN_HASTE", 0)
        self.asked, self.go, self.error = threading.Event(), threading.Event(), error
        self.reads = 0
        pread = RealFile.pread

        def slow(file: RealFile, length: int, position: int) -> bytes:
            if threading.current_thread().name.startswith("lookup"):
                self.wait()
            return pread(file, length, position)

        monkeypatch.setattr(RealFile, "pread", slow)

    def wait(self) -> None:
        self.reads += 1
        self.asked.set()
        assert self.go.wait(HUNG_S)
        if self.error is not None:
            raise self.error


def list_offsets(timestamp: int, partition: int = 0, **fields: Any) -> ListOffsetsRequest:
    topic = ListOffsetsRequest.ListOffsetsTopic
    row = topic.ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=-1)
    return ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic(name="t", partitions=[row])], **fields)


async def look_up(client: Client, timestamp: int, version: int = 7) -> Any:
    answer = await client.ask(list_offsets(timestamp), timeout_ms=60_000, version=version)
    return answer.topics[0].partitions[0]


async def filled(broker: Running) -> None:
    """Offsets 0 to 9, a millisecond apart, compressed by pairs."""
    times = range(0, 10, 2)
    await broker.produce(0, *(pair(NOW + at) for at in times))


def pair(timestamp: int) -> bytes:
    return batch(b"%d" % timestamp, b"again", timestamp=timestamp, compression=Codec.LZ4)


async def asked(broker: Running, timestamp: int, disk: SlowDisk, version: int = 7) -> asyncio.Task[Any]:
    """The lookup waits for the disk now."""
    task = asyncio.create_task(look_up(broker.client, timestamp, version))
    assert await asyncio.to_thread(disk.asked.wait, HUNG_S)
    return task


@pytest.mark.parametrize(("timestamp", "offset"), [(NOW + 3, 4), (MAX_TIMESTAMP, 8)])
async def test_a_lookup_that_waits_for_the_disk_holds_up_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timestamp: int, offset: int
) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        disk = SlowDisk(monkeypatch)
        waiting = await asked(broker, timestamp, disk)
        other = broker.again()
        assert (await other.produce(0, pair(LATER))).base_offset >= 10
        assert (await other.fetch(0, 10)).error_code == 0
        assert (await look_up(other.client, LATEST)).offset >= 12
        assert not waiting.done()
        disk.go.set()
        assert ((await waiting).error_code, (await waiting).offset) == (0, offset)
        await other.client.close()
        assert len(broker.broker.lookups) == 0
        assert broker.broker.lookups.count == 1


@pytest.mark.parametrize("timestamp", [NOW + 3, MAX_TIMESTAMP])
async def test_what_is_in_memory_is_looked_up_without_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timestamp: int
) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        elsewhere = SlowDisk(monkeypatch)
        elsewhere.go.set()
        expected = await look_up(broker.client, timestamp)
        assert elsewhere.reads
        monkeypatch.undo()
        count = broker.broker.lookups.count
        assert await look_up(broker.client, timestamp) == expected
        assert broker.broker.lookups.count == count


async def test_what_the_page_cache_has_lost_is_looked_up_by_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        disk = SlowDisk(monkeypatch, in_haste=True)
        monkeypatch.setattr(RealFile, "pread_cached", lambda *where: None)
        waiting = await asked(broker, NOW + 3, disk)
        assert (await look_up(broker.service, LATEST)).offset == 10
        assert not waiting.done()
        disk.go.set()
        assert (await waiting).offset == 4


async def test_a_lookup_that_takes_long_is_done_by_a_thread(tmp_path: Path) -> None:
    """A batch of many records is nothing to be read while others wait, compressed to little or not."""
    async with running(tmp_path) as broker:
        lookups = broker.broker.lookups
        await broker.produce(0, batch(*[b"many"] * 500, timestamp=NOW))
        await broker.produce(1, batch(bytes(10**6), timestamp=NOW, compression=Codec.ZSTD))
        for partition in (0, 1):
            request = list_offsets(NOW, partition)
            answer = await broker.client.ask(request, timeout_ms=60_000, version=7)
            assert answer.topics[0].partitions[0].offset == 0
            assert lookups.count == partition + 1


async def test_partitions_of_one_request_are_looked_up_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more than three, which leaves a thread to others; what is known at once is not waited for."""
    many = topic("t", TOPIC_ID, *[0] * 12)
    async with running(tmp_path, replace(image(), topics={"t": many}, topic_names={TOPIC_ID: "t"})) as broker:
        for number in range(6):
            await broker.produce(number, pair(NOW + number))
        disk = SlowDisk(monkeypatch)
        begun, three = list[int](), threading.Barrier(4, timeout=HUNG_S)
        wait = disk.wait

        def waited() -> None:
            if not disk.go.is_set():
                begun.append(1)
                three.wait()
            wait()

        monkeypatch.setattr(disk, "wait", waited)
        request = list_offsets(NOW, 0)
        rows = request.topics[0].partitions
        rows += [replaced_index(rows[0], number) for number in range(1, 12)]
        asked = asyncio.create_task(broker.client.ask(request, timeout_ms=60_000, version=7))
        await asyncio.to_thread(three.wait)
        assert len(broker.broker.lookups) == 3
        disk.go.set()
        found = (await asked).topics[0].partitions
        assert [row.partition_index for row in found] == [*range(12)]
        assert [row.timestamp for row in found] == [*range(NOW, NOW + 6), *[-1] * 6]
        assert len(begun) == 3


def replaced_index(row: Any, number: int) -> Any:
    return type(row)(partition_index=number, timestamp=row.timestamp, current_leader_epoch=-1)


async def test_requests_of_one_connection_are_answered_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        disk, done = SlowDisk(monkeypatch), list[str]()

        async def ask(name: str, request: Any, version: int) -> None:
            await broker.client.ask(request, timeout_ms=60_000, version=version)
            done.append(name)

        names = ("lookup", "end", "fetch")
        requests = ((list_offsets(NOW + 3), 7), (list_offsets(LATEST), 7), (broker.fetch_request(0, 0), 12))
        tasks = [asyncio.create_task(ask(name, *one)) for name, one in zip(names, requests, strict=True)]
        assert await asyncio.to_thread(disk.asked.wait, HUNG_S)
        disk.go.set()
        await asyncio.gather(*tasks)
        assert done == [*names]


async def test_a_client_that_leaves_stops_its_lookup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        disk, lookups = SlowDisk(monkeypatch), broker.broker.lookups
        waiting = await asked(broker, MAX_TIMESTAMP, disk)
        await broker.client.close()
        with pytest.raises((ConnectionError, asyncio.CancelledError)):
            await waiting
        await turns_until(lambda: len(lookups) == 0)
        reads = disk.reads
        disk.go.set()
        await asyncio.to_thread(lookups.close)
        assert disk.reads == reads  # the rest it did not want any more


def to_another_leader(broker: Running) -> None:
    topic = broker.follower.image.topics["t"]
    partitions = (PartitionImage((0, 1), (0, 1), 1, 4, 1), *topic.partitions[1:])
    broker.follower.move(topics={"t": TopicImage("t", topic.topic_id, partitions)})


def deleted(broker: Running) -> None:
    broker.follower.move(topics={}, topic_names={})


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (to_another_leader, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (deleted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_who_does_not_lead_any_more_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Running], None], code: ErrorCode
) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        disk = SlowDisk(monkeypatch)
        waiting = await asked(broker, NOW + 3, disk)
        change(broker)
        disk.go.set()
        assert (await waiting).error_code == code


async def test_a_lookup_is_done_anew_on_what_is_there_after_a_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        disk = SlowDisk(monkeypatch)
        waiting = await asked(broker, NOW + 8, disk)
        partition, _ = broker.broker.topics.leading(b"t", 0, by_id=False)
        assert partition is not None
        partition.log.truncate_to(4)
        partition.high_watermark = 4
        partition.append([memoryview(bytearray(pair(NOW + 20)))], NOW)
        disk.go.set()
        found = await waiting
        assert (found.error_code, found.offset, found.timestamp) == (0, 4, NOW + 20)


@pytest.mark.parametrize(("version", "code"), [(4, 5), (5, 78)])
async def test_a_log_that_changes_all_the_time_has_the_client_ask_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, code: int
) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        partition, _ = broker.broker.topics.leading(b"t", 0, by_id=False)
        assert partition is not None
        log = partition.log
        find = Lookups.find

        async def cut_meanwhile(lookups: Lookups, search: Any) -> Any:
            log.cuts += 1
            return await find(lookups, search)

        monkeypatch.setattr(Lookups, "find", cut_meanwhile)
        monkeypatch.setattr(lookup, "BYTES_IN_HASTE", 0)
        assert (await look_up(broker.client, NOW + 3, version)).error_code == code
        assert broker.broker.lookups.count == 4


async def test_a_disk_that_fails_a_lookup_goes_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        disk = SlowDisk(monkeypatch, OSError(5, "Input/output error"))
        disk.go.set()
        assert (await look_up(broker.client, NOW + 3)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(broker.broker.storage.offline) == 1


async def test_a_damaged_batch_is_answered_as_such(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        damage(tmp_path, 2, 70)
        assert (await look_up(broker.client, NOW + 4)).error_code == ErrorCode.CORRUPT_MESSAGE
        assert (await look_up(broker.client, NOW + 1)).offset == 2
        assert (await look_up(broker.client, EARLIEST)).offset == 0


def damage(path: Path, number: int = 1, at: int = 6) -> None:
    """Flips a bit of a batch; without further words of the second's base offset."""
    (segment,) = path.glob("**/t-0/*.log")
    content = bytearray(segment.read_bytes())
    batches = split(content)
    content[sum(map(len, batches[:number])) + at] ^= 64
    segment.write_bytes(content)  # the same file, so the broker has it open


async def test_a_damaged_segment_is_walked_once_while_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        damage(tmp_path)
        disk = SlowDisk(monkeypatch)
        clients = [broker.again() for _ in range(3)]
        fetches = [asyncio.create_task(one.fetch(0, offset)) for one, offset in zip(clients, (2, 2, 4), strict=True)]
        assert await asyncio.to_thread(disk.asked.wait, HUNG_S)
        assert (await broker.produce(1, pair(NOW))).error_code == 0
        assert (await broker.fetch(1, 0)).error_code == 0
        assert not any(fetch.done() for fetch in fetches)
        disk.go.set()
        codes = [(await fetch).error_code for fetch in fetches]
        assert codes == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE, 0]
        assert broker.broker.lookups.count == 1
        for one in clients:
            await one.client.close()


async def test_a_fetch_hears_of_a_disk_that_fails_a_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        damage(tmp_path)
        disk = SlowDisk(monkeypatch, OSError(5, "Input/output error"))
        disk.go.set()
        assert (await broker.fetch(0, 2)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(broker.broker.storage.offline) == 1
