"""A broker that stops closes its logs in a thread: what comes meanwhile changes nothing any more."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.broker import Running, batch, running
from support.log_dirs import metadata
from tailrace.errors import ErrorCode
from tailrace.metadata.image import PartitionImage
from tailrace_broker.directories.storage import Storage

PARTITIONS = 30


async def written(node: Running, count: int) -> None:
    for index in range(count):
        assert (await node.produce(index, batch(b"a"))).error_code == ErrorCode.NONE


def elected(node: Running) -> None:
    """The next epoch of all partitions, and one more of them."""
    topic = node.follower.image.topics["t"]
    rows = tuple(replace(row, leader_epoch=9, partition_epoch=9) for row in topic.partitions)
    more = (*rows, PartitionImage((0,), (0,), 0, 9, 9))
    node.follower.move(topics={"t": replace(topic, partitions=more)}, offset=50)


async def test_while_logs_are_closed_nothing_is_appended_and_no_image_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, really, loop = list[Any](), Storage.close, asyncio.get_running_loop()

    async def look() -> None:
        partition, code = node.broker.topics.leading(b"t", 0, by_id=False)
        seen.append((partition, code, partitions[0].leader, node.broker.topics.readable(b"t", 1, by_id=False)))
        elected(node)

    def close(storage: Storage, broker_epoch: int, metadata_offset: int) -> None:
        asyncio.run_coroutine_threadsafe(look(), loop).result()
        really(storage, broker_epoch, metadata_offset)

    monkeypatch.setattr(Storage, "close", close)
    async with running(tmp_path, metadata(PARTITIONS)) as node:
        await written(node, PARTITIONS)
        partitions = list(node.broker.topics.partitions())
    refused = (None, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert seen == [(*refused, -1, refused)]
    assert [partition.leader_epoch for partition in partitions] == [3] * PARTITIONS

    monkeypatch.undo()
    async with running(tmp_path, metadata(PARTITIONS)) as node:
        storage = node.broker.storage
        assert storage.dirs[0].last_shutdown.clean and storage.closed_offset == metadata(PARTITIONS).offset
        assert [(await node.fetch(index, 0)).high_watermark for index in range(PARTITIONS)] == [1] * PARTITIONS
