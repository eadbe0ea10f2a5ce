"""A word count of Kafka Streams with exactly_once_v2 counts right while a broker and coordinators are killed.

The program is Apache Kafka's own library, unchanged (support/WordCount.java).
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support import kafka_peer
from support.plugin import leave_out
from support.waiting import HUNG_S, until
from tailrace.testing import Cluster

WORDS = ("apple", "pear", "plum", "fig", "nut")
LINES = 1_500
SETTINGS = {
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if absent := kafka_peer.missing():
        leave_out(absent)
    if shutil.which("javac") is None:
        leave_out("a Java compiler: apt-get install -y openjdk-17-jdk-headless")
    with Cluster(
        brokers=3, data_dir=tmp_path / "data", settings=SETTINGS, arguments=["--coordinators", "2"]
    ) as running:
        yield running


def word_count(cluster: Cluster, folder: Path) -> subprocess.Popen[str]:
    program = Path(kafka_peer.__file__).with_name("WordCount.java")
    options = ["-Xmx384m", *kafka_peer.QUICK, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command = ["java", *options, "-cp", f"{kafka_peer.streams_libs()}/*", str(program)]
    arguments = [cluster.bootstrap, "lines", "counts", str(folder / "state"), "3"]
    return subprocess.Popen(
        [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def send(cluster: Cluster, numbers: range, expected: Counter[str]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in numbers:
        words = (WORDS[number % 5], WORDS[number * 7 % 3])
        expected.update(words)
        producer.produce("lines", " ".join(words).encode())
    assert producer.flush(HUNG_S) == 0


def counts(cluster: Cluster) -> dict[str, list[int]]:
    """All that a reader at read_committed finds of each word, in order."""
    consumer: Any = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "checker",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["counts"])
    found: dict[str, list[int]] = defaultdict(list)
    while (message := consumer.poll(5)) is not None:
        if message.error() is None:
            found[message.key().decode()].append(int(message.value()))
    consumer.close()
    return found


@pytest.mark.timeout(600)
def test_a_word_count_counts_right_whoever_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_topics([NewTopic(name, 4, 3) for name in ("lines", "counts")]).values():
        made.result(HUNG_S)
    expected: Counter[str] = Counter()
    program = word_count(cluster, tmp_path)
    try:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == "started\n"
        third = LINES // 3
        send(cluster, range(third), expected)
        cluster.kill("broker", 1)
        send(cluster, range(third, 2 * third), expected)
        cluster.kill("coordinator", 0)
        cluster.kill("coordinator", 1)
        send(cluster, range(2 * third, LINES), expected)
        right = lambda: {word: seen[-1] for word, seen in counts(cluster).items()} == expected or None  # noqa: E731
        until(right, "the counts of all words")
        program.stdin.write("\n")
        program.stdin.flush()
        assert "closed" in program.stdout.read()
    finally:
        program.kill()
        program.wait()
    # Each count is told once and in order: nothing was counted twice, and nothing aborted was seen.
    assert all(seen == sorted(set(seen)) for seen in counts(cluster).values())
