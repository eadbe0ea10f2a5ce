"""Brokers on hosts of their own: cables cut both ways and one way, power lost on a leader and on a follower."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import hosts
from support.hosts import Disk, Network
from support.load import Load, check, read_all
from support.moves import move_leader
from support.ports import free_ports
from support.replicated import ROUND, Replicated, create
from support.tailrace_nodes import TailraceNodes
from support.waiting import until
from tailrace.net.authentication.secret_file import NAME, make_secret

# A request to a host that has fallen silent is given up by the client after this time, not after its 30 s.
IMPATIENT = {"request_timeout_ms": 5000}


@dataclass(frozen=True)
class Hosts:
    """A cluster, its cables and its disks."""

    nodes: TailraceNodes
    network: Network
    disks: dict[int, Disk]

    def lose_power(self, node: int) -> None:
        """Nobody hears the host's last word; its page cache is gone."""
        self.network.cut(node)
        self.nodes.kill(node)
        self.disks[node].lose_power()
        self.network.join(node)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Hosts]:
    """Each broker has a network namespace and a file system; all other roles are where the clients are."""
    if absent := hosts.missing():
        pytest.skip(absent)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hosts-", ignore_cleanup_errors=True)))
        network = stack.enter_context(Network(3))
        disks = {n: stack.enter_context(Disk(folder, f"disk-{n}")) for n in range(3)}
        controller = f"{network.here}:{free_ports(1)}"
        make_secret(folder)
        secret = {"internal.secret.file": str(folder / NAME)}
        settings = {"controller.quorum.bootstrap.servers": controller, **secret}
        nodes = TailraceNodes(folder / "data", settings=settings)
        for role, number in nodes.services:
            nodes.own_settings[f"{role}-{number}"] = {"internal.listen": network.here}
        nodes.own_settings["controller-0"] = {"internal.listen": controller}
        for n, disk in disks.items():
            own = {"internal.listen": network.address(n), "log.dirs": str(disk.path / "log")}
            nodes.own_settings[f"broker-{n}"] = own
            nodes.prefixes[f"broker-{n}"] = network.prefix(n)
        with nodes:
            nodes.wait_for_all()
            yield Hosts(nodes, network, disks)


@pytest.fixture
def topic(cluster: Hosts) -> Iterator[Replicated]:
    """Three partitions, each led by another broker; two of three replicas must be in sync."""
    made = create(cluster.nodes, *ROUND, word="hosts", min_insync_replicas="2")
    yield made
    cluster.network.heal()
    cluster.nodes.heal()
    made.delete()


def test_a_disk_that_loses_power_keeps_only_what_was_synced(tmp_path: Path) -> None:
    if absent := hosts.missing():
        pytest.skip(absent)
    with Disk(tmp_path, "disk") as disk:
        (disk.path / "synced").write_text("kept")
        os.sync()
        (disk.path / "not-synced").write_text("lost")
        disk.lose_power()
        assert {file.name for file in disk.path.iterdir()} == {"lost+found", "synced"}


@pytest.mark.parametrize("how", ["cut", "mute", "deafen"])
def test_a_leader_whose_cable_is_cut_is_replaced_and_comes_back(cluster: Hosts, topic: Replicated, how: str) -> None:
    nodes, network = cluster.nodes, cluster.network
    with Load(nodes.bootstrap, topic.name, **IMPATIENT) as load:
        load.wait_for(300)
        getattr(network, how)(0)
        nodes.paused.add(0)  # nobody can ask it
        topic.wait(lambda state: state.leader not in {0, -1}, "another leader")
        load.wait_for(300)
        network.heal()
        nodes.paused.discard(0)
        for partition in range(3):
            topic.wait_for_isr(0, 1, 2, partition=partition)
        load.wait_for(300)
    assert load.promised.failed == []
    check(load.promised, read_all(nodes.bootstrap, topic.name))


def test_a_follower_that_cannot_reach_its_leader_leaves_the_isr_only(cluster: Hosts, topic: Replicated) -> None:
    nodes = cluster.nodes
    with Load(nodes.bootstrap, topic.name, **IMPATIENT) as load:
        load.wait_for(300)
        cluster.network.part(0, 1)
        assert topic.wait_for_isr(0, 2, partition=0).leader == 0
        assert topic.wait_for_isr(1, 2, partition=1).leader == 1
        load.wait_for(300)
        cluster.network.heal()
        for partition in range(3):
            topic.wait_for_isr(0, 1, 2, partition=partition)
    assert load.promised.failed == []
    check(load.promised, read_all(nodes.bootstrap, topic.name))


def test_power_lost_on_a_leader_loses_nothing_that_acks_all_promised(cluster: Hosts, topic: Replicated) -> None:
    nodes = cluster.nodes
    with Load(nodes.bootstrap, topic.name, **IMPATIENT) as load:
        load.wait_for(1000)
        cluster.lose_power(0)
        load.wait_for(300)
        nodes.start_node(0)
        for partition in range(3):
            topic.wait_for_isr(0, 1, 2, partition=partition)
        load.wait_for(300)
        for partition in range(3):
            move_leader(topic, 0, partition)
    assert load.promised.failed == []
    check(load.promised, read_all(nodes.bootstrap, topic.name))  # from the log that the power loss cut


def test_a_follower_that_lost_power_is_not_trusted_though_it_is_back_before_its_session_ends(cluster: Hosts) -> None:
    nodes = cluster.nodes
    topic = create(nodes, [0, 1], word="power", min_insync_replicas="2")
    values = [b"%d" % n for n in range(50)]
    for value in values:
        assert topic.produce(value).error_code == 0
    try:
        nodes.pause(0)
        cluster.lose_power(1)
        nodes.start_node(1)
        state = topic.wait(lambda s: s.leader != 0, "the end of node 0's session")
        assert (state.leader, 1 in state.isr | state.elr) == (-1, False)  # it has not all that it acknowledged
        nodes.resume(0)
        topic.wait_for_isr(0, 1)
        assert topic.append(b"next") == len(values)
        move_leader(topic, 1)
        # KIP-207: a new leader shows the end only when its high watermark has reached its epoch's start.
        until(lambda: topic.list_offset(node=1).error_code == 0, "the new leader's end offset")
        assert [value for _, value in topic.read()] == [*values, b"next"]
    finally:
        nodes.heal()
        topic.delete()


def test_after_all_hosts_lost_power_at_once_the_cluster_takes_records_again(cluster: Hosts, topic: Replicated) -> None:
    """What was not synced is gone, as in Kafka: acks=all promises memory on several hosts, not disks."""
    nodes = cluster.nodes
    for node in nodes.ids:
        assert topic.append(b"before", partition=node) == 0
    os.sync()
    for node in nodes.ids:
        cluster.network.cut(node)
    nodes.kill(*nodes.ids)
    for node in nodes.ids:
        cluster.disks[node].lose_power()
        cluster.network.join(node)
    nodes.heal()
    for partition in range(3):
        topic.wait_for_isr(0, 1, 2, partition=partition)
        assert topic.append(b"after", partition=partition) == 1
        assert topic.read(partition=partition) == [(0, b"before"), (1, b"after")]
