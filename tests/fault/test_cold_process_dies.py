"""kill -9 of the process that reads cold data, and of its broker: whoever reads gets every record; nothing stays."""

from __future__ import annotations

import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from support.children import child_of
from support.waiting import HUNG_S, until
from tailrace.testing import Cluster

TOPIC, RECORDS = "old", 2500
VALUE = bytes(30_000)
# Each record is on the disk when it is acknowledged, so that its pages can be dropped. The first half makes a scan.
CONFIGS = {"flush.messages": "1", "segment.bytes": str(4 << 20)}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(data_dir=tmp_path / "data", brokers=1) as running:
        admin = KafkaAdminClient(bootstrap_servers=running.bootstrap)
        admin.create_topics({TOPIC: {"num_partitions": 1, "replication_factor": 1, "configs": CONFIGS}})
        admin.close()
        producer = KafkaProducer(bootstrap_servers=running.bootstrap, acks="all", linger_ms=20, batch_size=1 << 19)
        sent = [producer.send(TOPIC, b"%d " % number + VALUE, partition=0) for number in range(RECORDS)]
        assert [one.get(HUNG_S).offset for one in sent] == list(range(RECORDS))
        producer.close()
        yield running


def forget(data: Path) -> None:
    """The page cache does not hold the topic any more."""
    for path in data.glob(f"broker-0/{TOPIC}-0/*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def gone(pid: int) -> bool:
    """It has ended: as a child of somebody who does not look after it, it stays a zombie."""
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def brought(cluster: Cluster, name: str) -> float:
    """What a broker's metric says."""
    address = cluster.addresses("broker")["http"]
    text = urllib.request.urlopen(f"http://{address}/metrics", timeout=HUNG_S).read().decode()
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"tailrace_{name}_total ")))


@pytest.mark.parametrize("kills", [(200, 500), (2000,), ()])
def test_kill_9_of_the_cold_process_costs_no_record(cluster: Cluster, tmp_path: Path, kills: tuple[int, ...]) -> None:
    forget(tmp_path / "data")
    broker = cluster.process_id("broker")
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", max_poll_records=50)
    consumer.assign([TopicPartition(TOPIC, 0)])
    read: list[tuple[int, int]] = []
    killed: list[int] = []

    def poll() -> bool:
        for row in (row for rows in consumer.poll(1000).values() for row in rows):
            read.append((row.offset, int(row.value.split(b" ")[0])))
        if len(killed) < len(kills) and len(read) >= kills[len(killed)]:
            forget(tmp_path / "data")
            process = child_of(broker, "cold_process")
            if process is None:  # it rests before it is started again; threads read meanwhile
                killed.append(0)
            else:
                os.kill(process, signal.SIGKILL)
                killed.append(process)
        return len(read) >= RECORDS

    until(poll, "every record is read")
    consumer.close()
    assert read == [(number, number) for number in range(RECORDS)]
    assert all(killed[:1]), "nothing was read from the disk"
    assert brought(cluster, "cold_read_bytes") > 0
    if 500 not in kills:  # after a death threads read for a while, and they know no pool
        assert brought(cluster, "cold_read_pool_bytes") > 0


def test_the_cold_process_ends_with_its_broker(cluster: Cluster, tmp_path: Path) -> None:
    forget(tmp_path / "data")
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(TOPIC, 0)])

    def started() -> int | None:
        consumer.poll(100)
        return child_of(cluster.process_id("broker"), "cold_process")

    process = until(started, "the broker has started its cold process")
    consumer.close()
    cluster.kill("broker")
    until(lambda: gone(process), "it has ended with its broker")
