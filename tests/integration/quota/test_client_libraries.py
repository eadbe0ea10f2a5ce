"""Every client library at a hundredth of what it wishes to send: all arrives, nothing fails, nobody hammers (KIP-219).

Each library is given at once what takes it a fraction of a second without a quota, and some eight seconds with one.
"""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from integration.quota.load import alter_quotas
from support import java_tools, kcat
from support.java_tools import JavaTools, Shell
from support.kcat import Kcat
from support.plugin import leave_out
from support.waiting import HUNG_S
from tailrace.net.address import Address
from tailrace.testing import Cluster

RECORD = b"x" * 1000
RECORDS = 160
RATE = 20_000.0
TOPIC = "measured"
# A second of a throttled client: its requests, and what keeps its metadata and connections fresh.
REQUESTS_A_SECOND = 6
CONNECTIONS = 8  # the client's and ours, from beginning to end


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(port=0, arguments=["--gateways", "2"]) as running:
        admin = KafkaAdminClient(bootstrap_servers=running.bootstrap)
        try:
            admin.create_topics({TOPIC: {"num_partitions": 1, "replication_factor": 1}})
        finally:
            admin.close()
        yield running


def with_kafka_python(cluster: Cluster, client_id: str) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, client_id=client_id)
    try:
        sent = [producer.send(TOPIC, RECORD) for _ in range(RECORDS)]
        producer.flush(HUNG_S)
        assert all(one.succeeded() for one in sent)
    finally:
        producer.close()


def with_aiokafka(cluster: Cluster, client_id: str) -> None:
    async def produce() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, client_id=client_id)
        await producer.start()
        try:
            sent = [await producer.send(TOPIC, RECORD) for _ in range(RECORDS)]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    asyncio.run(produce())


def with_confluent_kafka(cluster: Cluster, client_id: str) -> None:
    errors: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            errors.append(error)

    producer = ConfluentProducer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": client_id,
            "batch.num.messages": 16,
            "linger.ms": 1000,  # whole batches: librdkafka sends what it has, however little, on a busy machine
            "error_cb": errors.append,
        }
    )
    for _ in range(RECORDS):
        producer.produce(TOPIC, RECORD, on_delivery=delivered)
    assert producer.flush(HUNG_S) == 0 and not errors


def with_kcat(cluster: Cluster, client_id: str) -> None:
    if absent := kcat.missing():
        leave_out(absent)
    lines = "\n".join([RECORD.decode()] * RECORDS) + "\n"
    options = ("-X", f"client.id={client_id}", "-X", "batch.num.messages=16", "-X", "linger.ms=1000")
    done = Kcat(cluster.bootstrap).run("-P", "-t", TOPIC, "-p", "0", *options, stdin=lines)
    assert (done.returncode, done.stderr) == (0, "")


def with_java(cluster: Cluster, client_id: str) -> None:
    if absent := java_tools.missing():
        leave_out(absent)
    jvm = JavaTools()
    try:
        out = Shell(jvm, cluster.bootstrap).out(
            java_tools.PRODUCER_PERFORMANCE,
            "--topic", TOPIC, "--num-records", str(RECORDS), "--record-size", str(len(RECORD)), "--throughput", "-1",
            "--producer-props", f"bootstrap.servers={cluster.bootstrap}", f"client.id={client_id}",
        )  # fmt: skip
    finally:
        jvm.close()
    assert f"{RECORDS} records sent" in out


LIBRARIES: tuple[Callable[[Cluster, str], None], ...] = (
    with_kafka_python, with_aiokafka, with_confluent_kafka, with_kcat, with_java,
)  # fmt: skip


@dataclass(frozen=True)
class Counts:
    """What the gateways have counted, and the broker that has the sockets after their first data request."""

    requests: float
    closed: float
    throttled_ms: float


def counts(cluster: Cluster) -> Counts:
    pages = []
    for role, number in (("gateway", 0), ("gateway", 1), ("broker", 0)):
        where = cluster.addresses(role, number)["http"]
        pages.append(urllib.request.urlopen(f"http://{where}/metrics").read().decode())

    def total(pattern: str) -> float:
        return sum(float(value) for page in pages for value in re.findall("^" + pattern + r"\S* (\S+)$", page, re.M))

    return Counts(
        total(r"tailrace_requests_total\{"),
        total(r"tailrace_connection_close_total"),
        1000 * total(r"tailrace_throttle_time_seconds_total"),
    )


def log_of(cluster: Cluster) -> str:
    return (cluster.data_dir / "up.log").read_text(errors="replace")


def written(cluster: Cluster) -> int:
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap)
    try:
        return int(consumer.end_offsets([TopicPartition(TOPIC, 0)])[TopicPartition(TOPIC, 0)])
    finally:
        consumer.close()


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
def test_a_library_at_a_hundredth_of_its_wish_sends_all_once_and_does_not_hammer(
    cluster: Cluster, library: Callable[[Cluster, str], None]
) -> None:
    name = library.__name__
    asyncio.run(alter_quotas(Address.parse(cluster.bootstrap), {"client-id": name}, producer_byte_rate=RATE))
    offset, before = written(cluster), counts(cluster)
    mark = len(log_of(cluster))
    library(cluster, name)
    assert written(cluster) - offset == RECORDS  # a time-out or a broken connection would have sent some again
    after = counts(cluster)
    throttled_s = (after.throttled_ms - before.throttled_ms) / 1000
    assert throttled_s >= 1  # however the records were batched, the client was held back
    assert after.requests - before.requests <= REQUESTS_A_SECOND * RECORDS * len(RECORD) / RATE
    assert after.closed - before.closed <= CONNECTIONS
    assert "connection closed" not in log_of(cluster)[mark:]
