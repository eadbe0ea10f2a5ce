"""DescribeProducers (KIP-664): what a partition remembers of those who write to it, on the wire and by Kafka's tool."""

import time
from pathlib import Path
from typing import Any

import pytest

from support import java_tools as tools
from support.batches import batch
from support.java_tools import JavaTools, Shell
from support.raw import build
from support.stage import Topic, create_topic, unique
from support.targets import Target

CAPABILITY = "DescribeProducers (KIP-664)"
NONE, UNKNOWN, INVALID = 0, 3, 17
HEAD = ["ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"]
NOT_LEGAL = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
INVALID_NAMES = {
    "": "the empty string is not allowed",
    "..": "'..' is not allowed",
    "a/b": f"'a/b' {NOT_LEGAL}",
    "x" * 250: f"the length of '{'x' * 250}' is longer than the max allowed length 249",
}


def describe(topic: Topic, *partitions: int, name: str | None = None) -> list[Any]:
    """The rows of an answer, partition by partition."""
    asked = {"name": topic.name if name is None else name, "partition_indexes": list(partitions)}
    with topic.leader() as connection:
        (found,) = connection.ask(build(61, topics=[asked]), 0).topics
    assert found.name == asked["name"]
    return list(found.partitions)


def write(topic: Topic, producer_id: int, epoch: int, sequence: int, *values: bytes, at_ms: int) -> None:
    named = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    assert topic.produce(batch(*values, base_timestamp=at_ms, **named)).error_code == NONE


@pytest.mark.capability(CAPABILITY)
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_each_producer_is_told_with_its_last_batch(target: Target, kind: str) -> None:
    topic = create_topic(target, configs={"message.timestamp.type": kind})
    began = int(time.time() * 1000)
    assert describe(topic, 0)[0].active_producers == []
    assert topic.produce(batch(b"not idempotent")).error_code == NONE
    write(topic, 2**40, 3, 0, b"a", b"b", at_ms=began - 9000)
    write(topic, 7, 0, 5, b"a", at_ms=began - 8000)
    write(topic, 2**40, 3, 2, b"c", at_ms=began - 7000)
    write(topic, 7, 1, 0, b"a", at_ms=began - 6000)
    write(topic, 7, 1, 0, b"a", at_ms=began - 6000)  # again, as after an answer that was lost
    (row,) = describe(topic, 0)
    found = sorted([one.to_dict() for one in row.active_producers], key=lambda one: one["producer_id"])
    times = [one.pop("last_timestamp") for one in found]
    rest = {"coordinator_epoch": -1, "current_txn_start_offset": -1}
    assert found == [
        {"producer_id": 7, "producer_epoch": 1, "last_sequence": 0, **rest},
        {"producer_id": 2**40, "producer_epoch": 3, "last_sequence": 2, **rest},
    ]
    if kind == "CreateTime":
        assert times == [began - 6000, began - 7000]
    else:
        assert all(began <= moment for moment in times)
    assert (row.partition_index, row.error_code, row.error_message) == (0, NONE, None)


@pytest.mark.capability(CAPABILITY)
def test_what_is_not_there_is_refused_partition_by_partition(target: Target) -> None:
    topic = create_topic(target)
    rows = describe(topic, 0, 9, -1)
    assert [(row.partition_index, row.error_code, row.error_message) for row in rows] == [
        (0, NONE, None),
        (9, UNKNOWN, None),
        (-1, UNKNOWN, None),
    ]
    assert describe(topic) == []
    missing = "This server does not host this topic-partition."
    rows = describe(topic, 0, 4, name=unique("missing"))
    assert [(row.partition_index, row.error_code, row.error_message) for row in rows] == [
        (0, UNKNOWN, missing),
        (4, UNKNOWN, missing),
    ]


@pytest.mark.capability(CAPABILITY)
@pytest.mark.parametrize("name", INVALID_NAMES, ids=lambda name: name[:3] or "empty")
def test_a_name_that_no_topic_can_have_is_refused(target: Target, name: str) -> None:
    (row,) = describe(create_topic(target), 0, name=name)
    assert (row.error_code, row.error_message) == (INVALID, f"Topic name is invalid: {INVALID_NAMES[name]}")


@pytest.mark.capability(CAPABILITY)
@pytest.mark.by("java")
def test_the_transactions_tool_shows_an_idempotent_producer(target: Target, jvm: JavaTools, tmp_path: Path) -> None:
    shell, topic = Shell(jvm, target.bootstrap), create_topic(target, partitions=2)
    began = int(time.time() * 1000)
    asked = ("describe-producers", "--topic", topic.name, "--partition")
    assert rows_of(shell.out(tools.TRANSACTIONS, *asked, "0")) == [[*HEAD, "CurrentTransactionStartOffset"]]
    shell.out(tools.PRODUCER, "--topic", topic.name, stdin="a\nb\nc\n")
    told = [
        row
        for partition in ("0", "1")
        for row in rows_of(shell.out(tools.TRANSACTIONS, *asked, partition))[1:]  # past the head
    ]
    assert len(told) == 1, told  # the three have no keys and stick to one partition
    (producer_id, epoch, coordinator_epoch, sequence, moment, start) = told[0]
    assert (int(producer_id) >= 0, epoch, coordinator_epoch, sequence, start) == (True, "0", "-1", "2", "None")
    assert began <= int(moment) <= began + 60_000
    leader = str(topic.leaders[0])
    by_broker = shell.out(tools.TRANSACTIONS, *asked, "0", "--broker-id", leader)
    assert rows_of(by_broker) == rows_of(shell.out(tools.TRANSACTIONS, *asked, "0"))
    impatient = tmp_path / "client.properties"  # the tool looks for a topic that is not there for a minute
    impatient.write_text("default.api.timeout.ms=2000\nrequest.timeout.ms=2000\n")
    missing = ("describe-producers", "--topic", unique("missing"), "--partition", "0")
    refused = shell.run(tools.TRANSACTIONS, "--command-config", str(impatient), *missing)
    assert refused.code != 0 and "Failed to describe producers for partition" in refused.out + refused.err


def rows_of(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines() if line.strip()]
