"""A log dir that fills up: producers are slowed and muted, then refused; everybody else goes on; it heals by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.broker import CLIENT, OFFSETS_ID, batch, image, running
from tailrace.clock import Cancellable
from tailrace.errors import ErrorCode
from tailrace.net.client import Client
from tailrace.net.connection import Connection
from tailrace.net.quotas.mute import Mute
from tailrace.net.session import ClientSession
from tailrace.wire.hot.produce import encode_internal_produce
from tailrace.wire.messages import ListOffsetsRequest, ProduceRequest

MARKS: dict[str, Any] = {"log_dir_pressure_slow_bytes": "1000", "log_dir_pressure_refuse_bytes": "200"}
PLENTY, SLOW, FULL, HALF_OF_RESERVE_GONE = 5000, 600, 199, 99


class Disk:
    """What statvfs would say."""

    def __init__(self, usable_bytes: int = PLENTY) -> None:
        self.usable_bytes = usable_bytes
        self.measured = 0
        self.error: OSError | None = None

    def __call__(self, path: str) -> tuple[int, int]:
        self.measured += 1
        if self.error is not None:
            raise self.error
        return 10_000, self.usable_bytes


class Timer:
    """One that the test lets come."""

    def __init__(self, due: list[Callable[[], None]], end: Callable[[], None]) -> None:
        self._due, self._end = due, end

    def cancel(self) -> None:
        if self._end in self._due:
            self._due.remove(self._end)


class Mutes:
    """Mutes that last until they are ended."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.taken: list[tuple[Connection, int]] = []
        self._ends: list[Callable[[], None]] = []
        mute = Connection.mute

        def muted(connection: Connection, throttle_time_ms: int) -> None:
            self.taken.append((connection, throttle_time_ms))
            mute(connection, throttle_time_ms)

        def mute_of(now_ms: Any, _: Any, ended: Callable[[], None]) -> Mute:
            return Mute(now_ms, lambda _, end: self._until_ended(end), ended)

        patch.setattr(Connection, "mute", muted)
        patch.setattr("tailrace.net.session.Mute", mute_of)

    def _until_ended(self, end: Callable[[], None]) -> Cancellable:
        self._ends.append(end)
        return Timer(self._ends, end)

    def end(self) -> None:
        ends, self._ends = self._ends, []
        for end in ends:
            end()
        self.taken.clear()


def request(partition: int, records: bytes, acks: int = 1) -> ProduceRequest:
    data = ProduceRequest.TopicProduceData
    row = data.PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        transactional_id=None, acks=acks, timeout_ms=1000, topic_data=[data(name="t", partition_data=[row])]
    )


async def ask(client: Client, message: Any, version: int) -> Any:
    return await client.ask(message, timeout_ms=60_000, version=version)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", [3, 8, 9, 12])
async def test_between_the_marks_an_answer_carries_a_throttle_and_its_connection_is_muted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, acks: int
) -> None:
    async with running(tmp_path, space=Disk(SLOW), **MARKS) as node:
        mutes = Mutes(monkeypatch)
        answer = await ask(node.client, request(0, batch(b"v"), acks), version)
        assert answer.throttle_time_ms == 500
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert [ms for _, ms in mutes.taken] == [500]
        # The same connection must wait, another need not.
        latest = ListOffsetsRequest.ListOffsetsTopic
        asked = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[latest(name="t", partitions=[latest.ListOffsetsPartition(partition_index=0, timestamp=-1)])],
        )
        muted = asyncio.create_task(ask(node.client, asked, 5))
        other = Client(node.address, "other", CLIENT)
        try:
            told = await ask(other, asked, 5)
            assert told.topics[0].partitions[0].offset == 1
            assert not muted.done()
            mutes.end()
            assert (await muted).topics[0].partitions[0].offset == 1
        finally:
            await other.close()


async def test_a_throttle_goes_with_an_answer_that_waits_for_a_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, image(**{"flush.messages": "1"}), space=Disk(SLOW), **MARKS) as node:
        mutes = Mutes(monkeypatch)
        answer = await ask(node.client, request(0, batch(b"a")), 12)
        assert answer.throttle_time_ms == 500
        mutes.end()


@pytest.mark.parametrize("version", [3, 8, 12])
async def test_below_the_second_mark_clients_are_refused_and_told_why_and_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    disk = Disk()
    async with running(tmp_path, space=disk, **MARKS) as node:
        mutes = Mutes(monkeypatch)
        await node.produce(0, batch(b"before"))
        disk.usable_bytes = FULL
        node.broker.pressure.measure()
        answer = await ask(node.client, request(0, batch(b"v")), version)
        (row,) = answer.responses[0].partition_responses
        assert (row.error_code, answer.throttle_time_ms) == (ErrorCode.KAFKA_STORAGE_ERROR, 1000)
        if version >= 8:
            (log_dir,) = node.broker.storage.dirs
            assert row.error_message.startswith(f"the log directory {log_dir.path} has 199 bytes left")
        mutes.end()
        assert (await node.fetch(0, 0)).high_watermark == 1  # consumers read on, and nothing was written
        assert node.broker.pressure.refused_batches == 1
        disk.usable_bytes = PLENTY
        node.broker.pressure.measure()
        answer = await ask(node.client, request(0, batch(b"after")), version)
        assert (answer.throttle_time_ms, answer.responses[0].partition_responses[0].base_offset) == (0, 1)
        assert mutes.taken == []


async def test_the_marks_can_be_changed_while_the_broker_runs(tmp_path: Path) -> None:
    disk = Disk()
    async with running(tmp_path, space=disk, **MARKS) as node:
        assert not node.broker.pressure.any
        node.follower.move(configs={(4, "0"): {"log.dir.pressure.refuse.bytes": str(PLENTY + 1)}})
        answer = await ask(node.client, request(0, batch(b"v")), 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        node.follower.move(configs={})
        assert not node.broker.pressure.any


async def test_the_reserve_is_for_internal_topics(tmp_path: Path) -> None:
    async with running(tmp_path, space=Disk(FULL), **MARKS) as node:
        frame = encode_internal_produce(
            13, 1, "coordinator-0", OFFSETS_ID.bytes, 0, batch(b"offset"), shard_epoch=5, timeout_ms=1000
        )
        await node.service.ask_raw(frame, timeout_ms=60_000)
        log = node.broker.topics.by_name[b"__consumer_offsets"].partitions[0].log
        assert log.log_end_offset == 1
        # Also the first batch of a partition: with many new ones those would fill the reserve.
        assert (await node.produce(0, batch(b"v"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert not node.broker.storage.holds_data("t", 0)


async def test_the_space_is_measured_again_after_some_megabytes_and_not_for_each_batch(tmp_path: Path) -> None:
    disk = Disk()
    async with running(tmp_path, space=disk, **MARKS) as node:
        measured = disk.measured
        for _ in range(3):
            await node.produce(0, batch(b"v" * 1000))
        assert disk.measured == measured
        await node.produce(0, batch(b"v" * 70_000))
        assert disk.measured == measured + 1


async def test_without_marks_a_full_disk_is_written_to(tmp_path: Path) -> None:
    off: dict[str, Any] = dict.fromkeys(MARKS, "0")
    async with running(tmp_path, space=Disk(0), **off) as node:
        assert not node.broker.pressure.any
        assert (await node.produce(0, batch(b"v"))).error_code == 0


async def test_a_dir_that_cannot_be_measured_presses_nobody(tmp_path: Path) -> None:
    disk = Disk(FULL)
    async with running(tmp_path, space=disk, **MARKS) as node:
        assert node.broker.pressure.any
        disk.error = OSError("gone")
        node.broker.pressure.measure()
        assert not node.broker.pressure.any and node.broker.pressure.worst() is None


@pytest.mark.parametrize(
    ("usable", "stops"), [(PLENTY, False), (SLOW, False), (FULL, False), (HALF_OF_RESERVE_GONE, True)]
)
async def test_a_follower_leaves_records_with_its_leader_when_half_of_the_reserve_is_gone(
    tmp_path: Path, usable: int, stops: bool
) -> None:
    async with running(tmp_path, space=Disk(usable), **MARKS) as node:
        topics = node.broker.topics
        client, internal = (topics.by_name[name].partitions[0] for name in (b"t", b"__consumer_offsets"))
        for partition in (client, internal):
            assert isinstance(partition.log.log_end_offset, int)  # opened: where it lies is known
        assert node.broker.pressure.stops_following(client) == stops
        assert not node.broker.pressure.stops_following(internal)


async def test_a_level_that_changes_is_logged_once(tmp_path: Path) -> None:
    lines: list[tuple[str, dict[str, Any]]] = []

    class Log:
        def __getattr__(self, level: str) -> Callable[..., None]:
            return lambda text, **fields: lines.append((level, fields)) if "producers" in fields else None

    disk = Disk()
    async with running(tmp_path, space=disk, log=Log(), **MARKS) as node:
        for disk.usable_bytes in (PLENTY, SLOW, SLOW - 1, FULL, PLENTY, PLENTY):
            node.broker.pressure.measure()
    assert [(level, fields["producers"]) for level, fields in lines] == [
        ("warning", "slowed"),
        ("warning", "refused"),
        ("info", "taken"),
    ]


@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize(("usable_bytes", "disk_ms"), [(PLENTY, 0), (SLOW, 500)])
async def test_a_quota_has_muted_already_and_the_disk_mutes_for_its_own_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usable_bytes: int, disk_ms: int, rows: int
) -> None:
    muted: list[int] = []
    monkeypatch.setattr(
        ClientSession, "mute_for", lambda session, throttle_time_ms, owed=None: muted.append(throttle_time_ms)
    )
    settings: dict[str, Any] = {
        "gateway_advertise": "brokers",
        "gateway_listen": "127.0.0.1",
        "quota_max_throttle_ms": "120",
    }
    async with running(tmp_path, space=Disk(usable_bytes), **MARKS, **settings) as node:
        node.follower.move(quotas={(("client-id", "app"),): {"producer_byte_rate": 1.0}})
        asked = request(0, batch(b"v"))
        row = asked.topic_data[0].partition_data[0]
        asked.topic_data[0].partition_data += [type(row)(index=9, records=row.records) for _ in range(rows - 1)]
        assert node.client_address is not None
        client = Client(node.client_address, "app")
        answer = await ask(client, asked, 12)
        await client.close()
        assert answer.throttle_time_ms == max(120, disk_ms)
        assert muted == [120, *([disk_ms] if disk_ms else [])]
        assert node.broker.pressure.throttled_requests == bool(disk_ms)
