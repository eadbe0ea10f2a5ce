"""A small file system under the log dir, filled for real: producers are slowed, refused, taken again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from kafka import KafkaAdminClient, TopicPartition
from typer.testing import CliRunner

from support import batches
from support.raw import Raw, build
from support.subscribing import subscribed
from support.waiting import HUNG_S
from tailrace.cli.daily import app
from tailrace.cli.daily.status import asked
from tailrace.errors import ErrorCode
from tailrace.testing import Cluster

MB = 1 << 20
DISK, SLOW, REFUSE = 40 * MB, 24 * MB, 12 * MB
TOPIC, PRODUCE, VERSION = "fills", 0, 9
WAITING = [b"%d" % number for number in range(300)]


def missing() -> str | None:
    """Why no file system can be mounted here."""
    if os.geteuid() != 0:
        return "mounting needs root"
    return None if shutil.which("mount") else "not installed: mount (apt-get install -y mount)"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of DISK bytes."""
    if why := missing():
        pytest.skip(why)
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tailrace-test", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.fixture
def cluster(disk: Path) -> Iterator[Cluster]:
    settings = {
        "log.dirs": str(disk),
        "log.dir.pressure.slow.bytes": str(SLOW),
        "log.dir.pressure.refuse.bytes": str(REFUSE),
        "offsets.topic.num.partitions": "1",
    }
    with Cluster(settings=settings) as running:
        admin = KafkaAdminClient(bootstrap_servers=running.bootstrap)
        admin.create_topics({TOPIC: {"num_partitions": 1, "replication_factor": 1}})
        admin.close()
        yield running


def produced(bootstrap: str, records: bytes) -> tuple[int, Any]:
    """One request on a connection of its own, which nothing has muted: its throttle and its partition's answer."""
    host, _, port = bootstrap.rpartition(":")
    row = {"index": 0, "records": records}
    request = build(
        PRODUCE,
        transactional_id=None,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[{"name": TOPIC, "partition_data": [row]}],
    )
    with Raw(host, int(port)) as raw:
        answer = raw.ask(request, VERSION)
    return answer.throttle_time_ms, answer.responses[0].partition_responses[0]


def fill(cluster: Cluster) -> tuple[int, list[int], Any]:
    """Produces until it is refused: how many batches were taken, their throttles, the refusal."""
    batch = batches.batch(b"x" * 900_000)
    throttles = []
    for taken in range(DISK // 900_000):
        throttle_time_ms, row = produced(cluster.bootstrap, batch)
        throttles.append(throttle_time_ms)
        if row.error_code:
            return taken, throttles, row
    raise AssertionError("the disk is full and nobody was refused")


def pressed(cluster: Cluster) -> list[dict[str, Any]]:
    status, why = asked(cluster.admin, below="status")
    assert status is not None, why
    found: list[dict[str, Any]] = status["log_dirs_under_pressure"]
    return found


def test_a_disk_that_fills_up_slows_and_refuses_producers_until_there_is_space_again(
    cluster: Cluster, disk: Path
) -> None:
    options = {"group_id": "readers", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer = subscribed(TOPIC, bootstrap_servers=cluster.bootstrap, **options)
    taken, throttles, refused = fill(cluster)
    assert throttles == sorted(throttles) and throttles[0] == 0 and throttles[-1] == 1000
    assert any(0 < throttle_time_ms < 1000 for throttle_time_ms in throttles)
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert str(disk) in refused.error_message and "log.dir.pressure.refuse.bytes" in refused.error_message
    assert [row["producers"] for row in pressed(cluster)] == ["refused"]
    listed = CliRunner().invoke(app, ["broker", "log-dirs", "--json", "--bootstrap", cluster.bootstrap])
    (shown,) = [row for row in json.loads(listed.stdout) if Path(row["log_dir"]).is_relative_to(disk)]
    assert (shown["state"], shown["producers"]) == ("online", "refused")

    delivered: list[tuple[Any, int | None]] = []

    def on_delivery(error: Any, message: Message) -> None:
        delivered.append((error, message.offset()))

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 0,
            "batch.num.messages": 10,
            "retry.backoff.ms": 50,
            "delivery.timeout.ms": 1000 * HUNG_S,
        }
    )
    for value in WAITING:
        producer.produce(TOPIC, value, partition=0, on_delivery=on_delivery)
    assert producer.flush(3) == len(WAITING), delivered  # it tries again and again, and gives nothing up
    assert delivered == []

    # Consumers read everything that was taken, and their group commits.
    seen = 0
    while seen < taken:
        seen += sum(len(records) for records in consumer.poll(timeout_ms=20_000).values())
    consumer.commit()
    assert consumer.committed(TopicPartition(TOPIC, 0)) == taken

    subprocess.run(["mount", "-o", f"remount,size={3 * DISK}", str(disk)], check=True)
    assert producer.flush(HUNG_S) == 0
    assert delivered == [(None, taken + place) for place in range(len(WAITING))]
    values: list[bytes] = []
    while len(values) < len(WAITING):
        values += [record.value for records in consumer.poll(timeout_ms=20_000).values() for record in records]
    consumer.close()
    assert values == WAITING
    assert pressed(cluster) == []
