"""A broker whose disk takes long: to sync, under a topic that asks for that after every batch, and to read."""

from __future__ import annotations

import select
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import slow_sync
from support.load import Load, check, read_all
from support.replicated import ROUND, create
from support.slow_sync import SlowSync
from support.tailrace_nodes import TailraceNodes
from support.waiting import HUNG_S

START_MS = int(time.time() * 1000) - 60_000
UNTIL_TOLD_MS = 1000 * HUNG_S  # longer than the others need meanwhile, however busy the machine is


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[TailraceNodes, SlowSync]]:
    """Three brokers; broker 0's disk can be slow."""
    if absent := slow_sync.missing():
        pytest.skip(absent)
    with tempfile.TemporaryDirectory(prefix="slow-", ignore_cleanup_errors=True) as name:
        slow = SlowSync(Path(name))
        nodes = TailraceNodes(Path(name) / "data")
        nodes.environ["broker-0"] = slow.environ
        with nodes:
            nodes.wait_for_all()
            yield nodes, slow
            slow.set(0)


def test_a_slow_disk_holds_up_its_own_topic_and_no_other(cluster: tuple[TailraceNodes, SlowSync]) -> None:
    nodes, slow = cluster
    synced = create(nodes, [0, 1, 2], min_insync_replicas="2", flush_messages="1")
    other = create(nodes, [0, 1, 2], min_insync_replicas="2")
    slow.set(UNTIL_TOLD_MS)
    with synced.producing(b"slow", node=0, timeout_ms=UNTIL_TOLD_MS) as pending:
        for n in range(20):
            assert other.append(b"quick") == n
        assert select.select([pending.connection.socket], [], [], 0)[0] == []  # not answered yet
        slow.set(0)
        assert pending.answer().error_code == 0


def test_a_lookup_by_timestamp_that_waits_for_the_disk_holds_up_nobody(
    cluster: tuple[TailraceNodes, SlowSync],
) -> None:
    nodes, slow = cluster
    topic = create(nodes, [0, 1, 2])
    many = [b"old"] * 500  # what is little would be looked up at once
    for n in range(3):
        assert topic.append(*many, base_timestamp=START_MS + n, max_timestamp=START_MS + n) == 500 * n
    slow.set(0, read_delay_ms=UNTIL_TOLD_MS)
    with nodes.raw(0, timeout_s=30) as connection:
        sent = connection.send(topic.list_offset_request(START_MS + 1), 6)
        for n in range(20):
            assert topic.append(b"quick", base_timestamp=START_MS + 9, max_timestamp=START_MS + 9) == 1500 + n
            assert topic.fetch(1500 + n, node=0).error_code == 0
            assert topic.list_offset(node=0).offset == 1501 + n
        assert select.select([connection.socket], [], [], 0)[0] == []  # not answered yet
        slow.set(0)
        found = connection.receive(2, 6, sent).topics[0].partitions[0]
    assert (found.error_code, found.offset, found.timestamp) == (0, 500, START_MS + 1)


@pytest.mark.parametrize("leaders", ["all", "none"])
def test_a_slow_disk_of_a_leader_or_a_follower_loses_nothing(
    cluster: tuple[TailraceNodes, SlowSync], leaders: str
) -> None:
    nodes, slow = cluster
    assignment = ROUND if leaders == "all" else ([1, 0, 2], [2, 0, 1])
    topic = create(nodes, *assignment, min_insync_replicas="2", flush_messages="1")
    with Load(nodes.bootstrap, topic.name) as load:
        load.wait_for(200)
        slow.set(200)
        load.wait_for(200)
        slow.set(0)
        load.wait_for(200)
    for partition in range(len(assignment)):
        topic.wait_for_isr(0, 1, 2, partition=partition)
    assert load.promised.failed == []
    check(load.promised, read_all(nodes.bootstrap, topic.name))
