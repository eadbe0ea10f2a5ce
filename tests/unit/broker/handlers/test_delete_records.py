"""DeleteRecords (KIP-107): what was acknowledged as deleted stays so, whatever stops the broker."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import Any

import pytest

from support.broker import Running, batch, running
from support.log_dirs import Disks, metadata
from tailrace.errors import ErrorCode
from tailrace.log.filesystem.checkpoints import LOG_START_OFFSET, parse_offsets
from tailrace.wire.messages import DeleteRecordsRequest


async def delete(node: Running, *offsets: int) -> list[Any]:
    """Below an offset of each partition, in one request; the rows of the answer."""
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    rows = [topic.DeleteRecordsPartition(partition_index=n, offset=offset) for n, offset in enumerate(offsets)]
    request = DeleteRecordsRequest(topics=[topic(name="t", partitions=rows)], timeout_ms=1000)
    partitions: list[Any] = (await node.client.ask(request, timeout_ms=60_000)).topics[0].partitions
    return partitions


def starts(two: Disks) -> dict[int, int]:
    """The log start offset of each partition after a new start."""
    found = {}
    for log_dir in two.open():
        for topic, index in log_dir.partitions():
            log = log_dir.log(topic, index)
            assert log is not None
            found[index] = log.log_start_offset
        log_dir.release()
    return found


@pytest.mark.parametrize("power", [False, True], ids=["kill -9", "power loss"])
async def test_deleted_records_stay_deleted_after_a_crash(tmp_path: Path, power: bool) -> None:
    two = Disks()
    async with running(tmp_path, metadata(), log_dirs=two.dirs) as node:
        for index in range(4):
            for value in (b"a", b"b", b"c"):
                await node.produce(index, batch(value))
        for log_dir in two.dirs:
            for log in log_dir.open_logs().values():
                log.flush()
        answers = await delete(node, 1, 2, 3, -1)
        assert [(row.error_code, row.low_watermark) for row in answers] == [(0, 1), (0, 2), (0, 3), (0, 3)]
        for disk in two.disks:
            if power:
                disk.crash(Random(1))
            else:
                disk.kill()
        assert starts(two) == {0: 1, 1: 2, 2: 3, 3: 3}


async def test_one_write_of_a_directory_serves_all_partitions_of_a_request(tmp_path: Path) -> None:
    two = Disks()
    async with running(tmp_path, metadata(), log_dirs=two.dirs) as node:
        for index in range(4):
            await node.produce(index, batch(b"a", b"b"))
        writes = [disk.writes for disk in two.disks]
        await delete(node, 1, 1, 1, 1)
        assert [disk.writes - before for disk, before in zip(two.disks, writes, strict=True)] == [2, 2]  # and the copy
        await delete(node, 1, 1, 1, 1)  # the disk has it
        assert [disk.writes - before for disk, before in zip(two.disks, writes, strict=True)] == [2, 2]


async def test_what_the_disk_refuses_is_not_acknowledged(tmp_path: Path) -> None:
    two = Disks()
    async with running(tmp_path, metadata(), log_dirs=two.dirs) as node:
        for index in range(4):
            await node.produce(index, batch(b"a", b"b"))
        places = [node.broker.storage.place_of("t", index) for index in range(4)]
        two.disks[0].fail_all(OSError(errno.EIO, "broken"))
        codes = [row.error_code for row in await delete(node, 1, 1, 1, 1)]
        assert codes == [0 if place is two.dirs[1] else ErrorCode.KAFKA_STORAGE_ERROR for place in places]
        assert two.dirs[0].failure is not None
        assert parse_offsets(bytes(two.disks[1].content(f"/d1/{LOG_START_OFFSET}"))) == {
            ("t", index): 1 for index, place in enumerate(places) if place is two.dirs[1]
        }
