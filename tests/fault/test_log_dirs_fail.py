"""A disk of a broker with two log dirs fails under load (KIP-858): leaders move, the other disk goes on, and nothing
that was acknowledged under flush.messages=1 is gone, twice or out of order.
"""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support import failing_disk
from support.failing_disk import SYNC, WRITE, FailingDisk
from support.hosts import Disk, missing_for_disks
from support.load import Load, check, read_all
from support.raw import ConnectionClosed, build
from support.replicated import Replicated, create
from support.tailrace_nodes import TailraceNodes
from support.waiting import until
from tailrace.errors import ErrorCode

DESCRIBE = 35
# Producers are not slowed down before the disk is full: what then happens is the test.
NO_MARKS = {"log.dir.pressure.slow.bytes": "0", "log.dir.pressure.refuse.bytes": "0"}


def partitions(nodes: TailraceNodes, topic: Replicated) -> dict[Path, list[int]]:
    """Where broker 0 has its replicas; a dir that is offline is left out."""
    answer = nodes.ask(0, build(DESCRIBE, topics=None), 4)
    found = {}
    for row in answer.results:
        if not row.error_code:
            mine = [p.partition_index for t in row.topics if t.name == topic.name for p in t.partitions]
            found[Path(row.log_dir)] = sorted(mine)
    return found


def wait_for_all_in_sync(topic: Replicated, load: Load) -> None:
    """The broker whose disk had failed has caught up with all four partitions, and the load goes on."""
    for partition in range(4):
        topic.wait_for_isr(0, 1, 2, partition=partition)
    load.wait_for(200)


def assert_kept(nodes: TailraceNodes, topic: Replicated, at: dict[Path, list[int]], load: Load) -> None:
    """Nothing that was acknowledged is gone, and the replicas lie where they lay."""
    assert load.promised.failed == []
    assert partitions(nodes, topic) == at
    check(load.promised, read_all(nodes.bootstrap, topic.name))


class Rig(NamedTuple):
    nodes: TailraceNodes
    disk: FailingDisk
    dirs: tuple[Path, Path]

    def restart(self) -> None:
        """A new start of broker 0 on disks that are well takes both dirs up again."""
        self.disk.heal()
        self.nodes.shut_down(0)
        self.nodes.start_node(0)
        self.nodes.wait_for_all()


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Three brokers; broker 0 has two log dirs."""
    if absent := failing_disk.missing():
        pytest.skip(absent)
    with tempfile.TemporaryDirectory(prefix="dirs-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        dirs = (folder / "disk-a", folder / "disk-b")
        disk = FailingDisk(folder)
        nodes = TailraceNodes(folder / "data")
        nodes.environ["broker-0"] = disk.environ
        nodes.own_settings["broker-0"] = {"log.dirs": f"{dirs[0]},{dirs[1]}"}
        with nodes:
            nodes.wait_for_all()
            yield Rig(nodes, disk, dirs)
            disk.heal()


@pytest.mark.parametrize(
    ("what", "number"),
    [(SYNC, errno.EIO), (WRITE, errno.ENOSPC), (WRITE, errno.EROFS)],
    ids=["fsync fails", "disk full", "read-only"],
)
def test_a_failed_disk_costs_its_leaders_and_no_acknowledged_record(rig: Rig, what: int, number: int) -> None:
    nodes = rig.nodes
    topic = create(nodes, *[[0, 1, 2]] * 4, min_insync_replicas="2", flush_messages="1")
    valid, broken = rig.dirs
    at = partitions(nodes, topic)
    assert sorted(map(len, at.values())) == [2, 2]
    with Load(nodes.bootstrap, topic.name) as load:
        load.wait_for(200)
        rig.disk.fail(broken, what, number)
        for partition in at[broken]:
            state = topic.wait(lambda state: state.leader in (1, 2) and 0 not in state.isr, "another leader", partition)
            assert state.offline == {0}
        for partition in at[valid]:
            assert topic.state(partition).leader == 0
        load.wait_for(500)
        offline = nodes.ask(0, build(DESCRIBE, topics=None), 4).results
        assert {Path(row.log_dir): row.error_code for row in offline} == {
            valid: 0,
            broken: ErrorCode.KAFKA_STORAGE_ERROR,
        }
        assert partitions(nodes, topic) == {valid: at[valid]}
        rig.restart()
        wait_for_all_in_sync(topic, load)
    assert_kept(nodes, topic, at, load)
    topic.delete()


def test_a_broker_whose_last_disk_fails_stops_and_others_lead(rig: Rig) -> None:
    nodes = rig.nodes
    topic = create(nodes, *[[0, 1, 2]] * 2, min_insync_replicas="2", flush_messages="1")
    with Load(nodes.bootstrap, topic.name) as load:
        load.wait_for(100)
        rig.disk.fail(rig.dirs[0].parent / "disk-", SYNC | WRITE)
        nodes.children["broker-0"].ended()
        load.wait_for(300)
        rig.disk.heal()
        nodes.start_node(0)
        for partition in range(2):
            topic.wait_for_isr(0, 1, 2, partition=partition)
    check(load.promised, read_all(nodes.bootstrap, topic.name))
    topic.delete()


def test_a_start_with_an_unreadable_disk_serves_the_other(rig: Rig) -> None:
    nodes = rig.nodes
    topic = create(nodes, *[[0]] * 2)
    at = {partitions(nodes, topic)[folder][0]: folder for folder in rig.dirs}
    nodes.shut_down(0)
    lost = rig.dirs[1].rename(rig.dirs[1].with_suffix(".away"))
    rig.dirs[1].write_text("no directory")
    try:
        nodes.start_node(0)
        nodes.wait_for_all()
        assert {partition: topic.state(partition).leader for partition in at} == {
            partition: 0 if folder == rig.dirs[0] else -1 for partition, folder in at.items()
        }
    finally:
        rig.dirs[1].unlink()
        lost.rename(rig.dirs[1])
    rig.restart()
    for partition in at:
        topic.wait_for_leader(0, partition)
    topic.delete()


def test_a_disk_that_the_kernel_turns_read_only_costs_its_leaders_and_no_acknowledged_record(tmp_path: Path) -> None:
    """An ext4 file system with an error in it, under load; repaired and mounted again it is taken up."""
    if absent := missing_for_disks():
        pytest.skip(absent)
    with Disk(tmp_path, "disk") as disk:
        valid, broken = tmp_path / "sound", disk.path / "logs"
        nodes = TailraceNodes(tmp_path / "data")
        nodes.own_settings["broker-0"] = {"log.dirs": f"{valid},{broken}"}
        with nodes:
            nodes.wait_for_all()
            topic = create(nodes, *[[0, 1, 2]] * 4, min_insync_replicas="2", flush_messages="1")
            at = partitions(nodes, topic)
            with Load(nodes.bootstrap, topic.name) as load:
                load.wait_for(200)
                disk.turn_read_only()
                for partition in at[broken]:
                    topic.wait(lambda state: state.leader in (1, 2), "another leader", partition)
                for partition in at[valid]:
                    assert topic.state(partition).leader == 0
                load.wait_for(300)
                nodes.shut_down(0)
                disk.repair()
                nodes.start_node(0)
                wait_for_all_in_sync(topic, load)
            assert_kept(nodes, topic, at, load)


def test_a_disk_that_is_really_full_loses_nothing_and_is_taken_up_when_there_is_room(tmp_path: Path) -> None:
    """A tmpfs of 3 MB; the log's own disk, so that the broker must stop, and comes back after a remount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"a right to mount: {mounted.stderr.decode().strip()}")
    try:
        nodes = TailraceNodes(tmp_path / "data", 1, settings={"num.partitions": "1"})
        nodes.own_settings["broker-0"] = {"log.dirs": str(disk), **NO_MARKS}
        with nodes:
            nodes.wait_for_all()
            topic = create(nodes, [0], flush_messages="1")
            numbers: list[int] = []
            while nodes.is_running(0):
                answer = _append(topic, b"%08d" % len(numbers) + os.urandom(60_000))
                if answer is None:
                    break
                numbers.append(answer)
            assert len(numbers) > 10
            nodes.children["broker-0"].ended()
            subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
            nodes.start_node(0)
            until(lambda: topic.list_offset().error_code == 0, "the log's end")
            found = {offset: int(value[:8]) for offset, value in topic.read()}
            assert [found[offset] for offset in numbers] == list(range(len(numbers)))
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def _append(topic: Replicated, value: bytes) -> int | None:
    """The offset of a record that was acknowledged, None once the disk took no more."""
    try:
        answer = topic.produce(value)
    except (ConnectionClosed, ConnectionError, TimeoutError):  # it may stop before its answer has left
        return None
    return None if answer.error_code else answer.base_offset
