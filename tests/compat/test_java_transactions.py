"""Transactions of the Java producer, and all that kafka-transactions.sh shows and ends (KIP-664, KIP-939)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support import java_tools as tools
from support.java_tools import JavaTools, Shell
from support.stage import Topic, create_topic, unique
from support.targets import Target
from support.transactional import Transactional
from support.transactions_read import values, write_plain
from support.waiting import until
from tailrace.errors import ErrorCode

pytestmark = [
    pytest.mark.by("java"),
    pytest.mark.capability("transactions of the Java client, and kafka-transactions.sh"),
]
LATE_MS = 20 * 60_000
DEFAULTS = ("--entity-type", "brokers", "--entity-default", "--alter")
VERIFICATION = "transaction.partition.verification.enable"


@pytest.fixture
def shell(target: Target, jvm: JavaTools) -> Shell:
    return Shell(jvm, target.bootstrap)


@pytest.fixture
def producer(target: Target) -> Iterator[Transactional]:
    """A producer with a transactional id, at its first epoch."""
    one = Transactional(target)
    assert one.init() is ErrorCode.NONE
    yield one
    one.close()


@contextmanager
def unverified(shell: Shell) -> Iterator[None]:
    """Partitions take batches of transactions that no coordinator knows, as before KIP-890: these hang."""
    shell.out(tools.CONFIGS, *DEFAULTS, "--add-config", f"{VERIFICATION}=false")
    try:
        yield
    finally:
        shell.out(tools.CONFIGS, *DEFAULTS, "--delete-config", VERIFICATION)


def read(target: Target, topic: Topic) -> None:
    """Waits until a reader at read_committed sees the plain record, and sees nothing else."""
    until(lambda: values(target, topic, committed=True) == ["plain"] or None, "what was held up")


def rows(told: str) -> list[list[str]]:
    """The cells of each line under the head."""
    return [line.split() for line in told.splitlines() if line.strip()][1:]


def test_transactions_of_the_java_producer(target: Target, shell: Shell) -> None:
    topic, name = create_topic(target), unique("transaction")
    load = ("--topic", topic.name, "--num-records", "200", "--record-size", "10", "--throughput", "1000")
    of_a_transaction = ("--transactional-id", name, "--transaction-duration-ms", "50")
    assert "200 records sent" in shell.out(tools.PRODUCER_PERFORMANCE, *load, *of_a_transaction)
    until(lambda: len(values(target, topic, committed=True)) == 200 or None, "what was committed")

    def states() -> list[str]:
        return [row[3] for row in rows(shell.out(tools.TRANSACTIONS, "list")) if row[0] == name]

    until(lambda: states() == ["CompleteCommit"], "its coordinator knows that the markers are written")
    described = shell.out(tools.TRANSACTIONS, "describe", "--transactional-id", name).splitlines()[-1].split()
    assert described[1] == name


def test_an_open_transaction_is_ended_on_one_partition(target: Target, shell: Shell, producer: Transactional) -> None:
    """Its coordinator has it, and the tool does not mind."""
    topic = create_topic(target)
    assert producer.begun(topic, 0) == [ErrorCode.NONE]
    assert producer.produce(topic, "open") is ErrorCode.NONE
    write_plain(topic)
    assert values(target, topic, committed=True) == []
    shell.out(tools.TRANSACTIONS, "abort", "--topic", topic.name, "--partition", "0", "--start-offset", "0")
    read(target, topic)


def test_a_hanging_transaction_is_found_and_ended(target: Target, shell: Shell, producer: Transactional) -> None:
    topic = create_topic(target)
    find = ("find-hanging", "--topic", topic.name)
    assert rows(shell.out(tools.TRANSACTIONS, *find)) == []
    with unverified(shell):
        until(lambda: producer.produce(topic, "hangs", ago_ms=LATE_MS) is ErrorCode.NONE or None, "it is taken")
    write_plain(topic)
    ((name, partition, producer_id, epoch, coordinator_epoch, start, _, minutes),) = rows(
        shell.out(tools.TRANSACTIONS, *find)
    )
    assert (name, partition, start, int(minutes) >= 20) == (topic.name, "0", "0", True)
    assert (int(producer_id), int(epoch), coordinator_epoch) == (*producer.known, "-1")
    assert rows(shell.out(tools.TRANSACTIONS, *find, "--partition", "0", "--max-transaction-timeout", "30")) == []
    (of_broker,) = rows(shell.out(tools.TRANSACTIONS, *find, "--broker-id", str(topic.leaders[0])))
    assert of_broker[:6] == [name, partition, producer_id, epoch, coordinator_epoch, start]

    shell.out(tools.TRANSACTIONS, "abort", "--topic", topic.name, "--partition", "0", "--start-offset", start)
    read(target, topic)
    assert rows(shell.out(tools.TRANSACTIONS, *find)) == []


def test_a_producer_is_fenced_and_its_transaction_aborted(
    target: Target, shell: Shell, producer: Transactional
) -> None:
    topic = create_topic(target)
    assert producer.begun(topic, 0) == [ErrorCode.NONE]
    assert producer.produce(topic, "open") is ErrorCode.NONE
    write_plain(topic)
    described = rows(shell.out(tools.TRANSACTIONS, "describe", "--transactional-id", producer.name))
    assert described[0][1:3] == [producer.name, str(producer.producer_id)]
    assert (f"{topic.name}-0" in described[0], "Ongoing" in described[0]) == (True, True)
    shell.out(tools.TRANSACTIONS, "forceTerminateTransaction", "--transactionalId", producer.name)
    read(target, topic)
    assert producer.produce(topic, "late") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.end(True) is ErrorCode.PRODUCER_FENCED
