"""kcat: what people type at a shell, on Debian's librdkafka 2.0."""

import os
import signal
import threading

import pytest

from support import kcat
from support.clients import Client
from support.clients.base import await_share
from support.kcat import Kcat
from support.plugin import leave_out
from support.stage import create_topic
from support.targets import Target
from support.waiting import HUNG_S, until

pytestmark = pytest.mark.by("kcat")


@pytest.fixture
def shell(target: Target) -> Kcat:
    if absent := kcat.missing():
        leave_out(absent)
    return Kcat(target.bootstrap)


@pytest.mark.capability("list brokers, topics, partitions")
def test_kcat_lists_every_node_on_a_port_of_its_own(target: Target, shell: Kcat) -> None:
    topic = create_topic(target, partitions=3)
    seen = shell.metadata()
    assert sorted(broker["id"] for broker in seen["brokers"]) == list(range(target.brokers))
    assert len({broker["name"] for broker in seen["brokers"]}) == target.brokers
    (row,) = [row for row in seen["topics"] if row["topic"] == topic.name]
    assert tuple(p["leader"] for p in row["partitions"]) == topic.leaders


@pytest.mark.capability("produce and consume with every compression, keys, headers, tombstones")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_reads_back_what_it_wrote(target: Target, shell: Kcat, codec: str) -> None:
    topic = create_topic(target)
    lines = [f"key-{n}:value-{n}" for n in range(50)]
    shell.out("-P", "-t", topic.name, "-K:", "-z", codec, "-H", "a=b", stdin="\n".join(lines) + "\n")
    read = shell.out("-C", "-t", topic.name, "-e", "-f", "%k:%s %h %o\n").splitlines()
    assert read == [f"{line} a=b {n}" for n, line in enumerate(lines)]


@pytest.mark.capability("produce acks 0, 1, all")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_kcat_writes_with_every_acks(target: Target, shell: Kcat, acks: str) -> None:
    topic = create_topic(target)
    shell.out("-P", "-t", topic.name, "-X", f"acks={acks}", stdin="one\ntwo\n")
    if acks == "0":  # nobody has said that they are there
        until(lambda: len(shell.out("-C", "-t", topic.name, "-e").split()) == 2, "both records")
    assert shell.out("-C", "-t", topic.name, "-e").split() == ["one", "two"]


@pytest.mark.capability("idempotent producer")
def test_kcat_writes_idempotently(target: Target, shell: Kcat) -> None:
    topic = create_topic(target)
    shell.out("-P", "-t", topic.name, "-X", "enable.idempotence=true", stdin="one\ntwo\n")
    assert shell.out("-C", "-t", topic.name, "-e").split() == ["one", "two"]


@pytest.mark.capability("consume from earliest, latest, an offset, a timestamp")
def test_kcat_starts_where_asked(target: Target, shell: Kcat) -> None:
    topic = create_topic(target)
    shell.out("-P", "-t", topic.name, stdin="a\nb\nc\nd\n")
    assert shell.out("-C", "-t", topic.name, "-o", "2", "-e").split() == ["c", "d"]
    assert shell.out("-C", "-t", topic.name, "-o", "-1", "-e").split() == ["d"]
    assert shell.out("-C", "-t", topic.name, "-o", "s@1000", "-e").split() == ["a", "b", "c", "d"]
    assert shell.out("-Q", "-t", f"{topic.name}:0:-1").split()[-1] == "4"


@pytest.mark.capability("groups of three members: a killed member")
@pytest.mark.only("tailrace3", "kafka")
def test_a_killed_member_is_missed_and_its_partitions_are_taken_over(
    target: Target, shell: Kcat, client: Client, group: str
) -> None:
    topic = create_topic(target, partitions=6)
    timers = ["-X", "session.timeout.ms=1500", "-X", "heartbeat.interval.ms=300"]
    first, second = client.join(group, topic.name), client.join(group, topic.name)
    try:
        await_share([first, second], 6)
        pending_deletion = shell.start("-G", group, *timers, "-X", "partition.assignment.strategy=range", topic.name)
        try:
            with first.changed:
                shrunk = first.changed.wait_for(lambda: len(first.partitions | second.partitions) == 4, HUNG_S)
            assert shrunk, (first.partitions, second.partitions)
        finally:
            os.kill(pending_deletion.pid, signal.SIGKILL)
            pending_deletion.communicate()
        await_share([first, second], 6)
    finally:
        leavers = [threading.Thread(target=member.leave) for member in (first, second)]
        for leaver in leavers:
            leaver.start()
        for leaver in leavers:
            leaver.join()
