"""Three loops that consume, transform and produce in transactions, for tests that hurt the cluster meanwhile.

Three client libraries, each a process that may be killed, too. A checker of its own reads what they wrote: each input
has its effect exactly once at read_committed, nothing that was aborted is visible, the group's offsets agree, and no
transaction was open for longer than is promised.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from kafka import KafkaProducer

from support.raw import Raw
from support.transaction_times import batches_at, opened
from support.transform import CLIENTS, GROUP, SINKS, SOURCE, TRANSACTION_TIMEOUT_MS
from support.waiting import HUNG_S, until

STEP = 25  # inputs of each partition between two faults
PARTITIONS = len(CLIENTS)
CLEANUP_MS = 1_000
_PATIENCE_S, _PATIENCE_TIMES = 40, 4
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(CLEANUP_MS),
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "min.insync.replicas": "2",
}


class Loop:
    """One client's loop; a process that ends is followed by another one with the same transactional id."""

    def __init__(self, client: str, bootstrap: str, partition: int) -> None:
        self.position = 0
        self.lives = 0
        self.stuck = 0  # lives that were ended as nothing came of them
        self.news = threading.Condition()
        self.over = False
        self._command = [sys.executable, "-m", "support.transform", client, bootstrap, str(partition)]
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, name=client)
        self._thread.start()

    def _run(self) -> None:
        while not self.over:
            with subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=os.environ,
            ) as process:
                self._process = process
                self.lives += 1
                assert process.stdout is not None
                for line in process.stdout:
                    with self.news:
                        self.position = max(self.position, int(line))
                        self.news.notify_all()

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()

    def wait_for(self, position: int) -> None:
        """Returns when it has committed so far.

        A process that commits nothing for long is killed, too: kafka-python 3.0.12 and librdkafka 2.16 may go round in
        circles for ever when their connections break, and send nothing.
        """
        for _ in range(_PATIENCE_TIMES):
            with self.news:
                if self.news.wait_for(lambda: self.position >= position, _PATIENCE_S):
                    return
            self.stuck += 1
            self.kill()
        raise TimeoutError(f"{self._command[3]} is at {self.position} of {position}, in life {self.lives}")

    def end(self) -> None:
        self.over = True
        self.kill()
        self._thread.join()


class ExactlyOnce:
    """The loops and what they were given; `with` starts and ends them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.inputs = 0  # of each partition
        self.faults: list[tuple[float, str]] = []  # milliseconds until all loops had committed after it
        self.abandoned = 0
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._make_topics()
        self.loops: list[Loop] = []

    def __enter__(self) -> Self:
        self.loops = [Loop(client, self.bootstrap, n) for n, client in enumerate(CLIENTS)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for loop in self.loops:
            loop.end()

    def _make_topics(self) -> None:
        config = {"message.timestamp.type": "LogAppendTime"}
        made = self._admin.create_topics([NewTopic(name, PARTITIONS, 3, config=config) for name in (SOURCE, *SINKS)])
        for one in made.values():
            one.result(HUNG_S)

    # -- while it goes on -----------------------------------------------------------------------------------------

    def feed(self) -> None:
        """More inputs for every partition; each value is "partition offset"."""
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all", enable_idempotence=True)
        for number in range(self.inputs, self.inputs + STEP):
            for partition in range(PARTITIONS):
                producer.send(SOURCE, f"{partition} {number}".encode(), partition=partition)
        producer.flush(HUNG_S)
        producer.close()
        self.inputs += STEP

    def go_on(self) -> None:
        """Every loop takes all inputs."""
        for loop in self.loops:
            loop.wait_for(self.inputs)

    def abandon(self) -> None:
        """A producer leaves a transaction open in both sinks and is never heard again."""
        self.abandoned += 1
        producer: Any = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": f"abandoned-{self.abandoned}",
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            }
        )
        producer.init_transactions(HUNG_S)
        producer.begin_transaction()
        for sink in SINKS:
            producer.produce(sink, b"aborted with its producer", partition=self.abandoned % PARTITIONS)
        producer.flush(HUNG_S)

    @contextmanager
    def fault(self, name: str) -> Iterator[None]:
        """Inputs before it, and all of them taken after it: the block hurts the cluster and may heal it."""
        self.feed()
        began = time.monotonic()
        yield
        self.go_on()
        self.faults.append((1000 * (time.monotonic() - began), name))

    def kill_clients(self) -> None:
        for loop in self.loops:
            loop.kill()

    # -- the checker ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """After the end of the loops: raises AssertionError where something is not as promised."""
        # An aborted transaction's end may still be on its way, and a killed client's last one times out.
        until(
            lambda: self._ends(IsolationLevel.READ_COMMITTED) == self._ends(IsolationLevel.READ_UNCOMMITTED),
            "no transaction is open",
        )
        self._check_effects()
        self._check_offsets()
        self._check_times()

    def _check_effects(self) -> None:
        expected = Counter(f"{partition} {n}".encode() for partition in range(PARTITIONS) for n in range(self.inputs))
        found = self._effects(self._ends(IsolationLevel.READ_COMMITTED))
        for sink in SINKS:
            assert found[sink] == expected, (sink, found[sink] - expected, expected - found[sink])

    def _check_offsets(self) -> None:
        asked = [ConsumerGroupTopicPartitions(GROUP, [TopicPartition(SOURCE, n) for n in range(PARTITIONS)])]
        # The end of a group's last transaction may reach its coordinator after the partitions.
        answer = self._admin.list_consumer_group_offsets(asked, require_stable=True)[GROUP]
        committed = answer.result(HUNG_S).topic_partitions
        found = sorted((one.partition, one.offset) for one in committed)
        assert found == [(n, self.inputs) for n in range(PARTITIONS)]

    def _check_times(self) -> None:
        """docs/transactions.md: the timeout, and until a coordinator looks; one that is away looks when it is back."""
        promised_ms = TRANSACTION_TIMEOUT_MS + CLEANUP_MS + max(self.faults)[0]
        late = [one for one in self.open_times() if one[2] is None or one[2] > promised_ms]
        assert not late, (promised_ms, late)

    def open_times(self) -> list[tuple[str, int, int | None]]:
        """(partition, first offset, milliseconds for which it was open) of every transaction in the sinks."""
        described = self._admin.list_topics(timeout=HUNG_S)
        found = []
        for sink in SINKS:
            for partition, row in described.topics[sink].partitions.items():
                leader = described.brokers[row.leader]
                with Raw(str(leader.host), int(leader.port)) as connection:
                    rows = opened(batches_at(connection, sink, partition))
                found += [(f"{sink}-{partition}", one.first_offset, one.open_ms) for one in rows]
        return found

    def _ends(self, level: IsolationLevel) -> dict[tuple[str, int], int]:
        """The end offsets of the sinks as a reader of that isolation level is told them."""
        latest: Any = OffsetSpec.latest  # it has no types
        wanted = {TopicPartition(sink, n): latest() for sink in SINKS for n in range(PARTITIONS)}
        found = self._admin.list_offsets(wanted, isolation_level=level, request_timeout=HUNG_S)
        return {(at.topic, at.partition): one.result().offset for at, one in found.items()}

    def _effects(self, until_offsets: dict[tuple[str, int], int]) -> dict[str, Counter[bytes]]:
        """What a reader at read_committed finds in each sink."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "checker",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(sink, n, 0) for sink, n in until_offsets])
        found: dict[str, Counter[bytes]] = {sink: Counter() for sink in SINKS}
        left = set(until_offsets)
        while left:
            message = consumer.poll(HUNG_S)
            assert message is not None, f"nothing comes, and {left} were not read to the end"
            if message.error() is None:
                found[str(message.topic())][bytes(message.value() or b"")] += 1
            else:
                left.discard((str(message.topic()), int(message.partition() or 0)))
        consumer.close()
        return found
