"""Topics as tables of Delta Lake: killed at every step, beside a second writer, on S3, and read by Spark and others."""

from __future__ import annotations

import datetime
import io
import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession

from support.s3_server import s3_environ
from support.schema_registry import framed, schema_registry
from support.spark_cluster import SparkCluster
from support.table_readers import rows_for_all
from support.topic_tables import TOPIC_ID, FailingStore, JsonCluster, commit_partition_0, fill, moved_on, plan_of
from support.waiting import HUNG_S, until
from tailrace.tables.batch import Batch
from tailrace.tables.delta import DeltaStore
from tailrace.tables.fields.json_fields import decode
from tailrace.tables.fields.registry import HttpRegistry, RegisteredSchemas, RegistryDecoder
from tailrace.tables.store import CommitConflict, StoreFailure, TopicStore

VALUES = ([{"a": 1}, b"no", {"a": "x"}, {"b": 1.5}], [{"a": 2}, {"a": 3, "b": 1}, b"[]"])
ROWS, LETTERS = [(0, 0), (0, 3), (1, 0), (1, 1)], [(0, 1), (0, 2), (1, 2)]
RUN = (sys.executable, "-m", "tailrace.cli", "table", "run")


def positions(uri: str) -> list[tuple[int, int]]:
    found = DeltaTable(uri).to_pyarrow_table(columns=["_kafka_partition", "_kafka_offset"]).to_pydict()
    return sorted(zip(found["_kafka_partition"], found["_kafka_offset"], strict=True))


def kept(location: str, topic: str = "t") -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    return positions(f"{location}/tables/{topic}"), positions(f"{location}/dead-letters/{topic}")


async def test_a_worker_killed_at_any_step_leaves_each_record_once(tmp_path: Path) -> None:
    """The real tables, also while a life settles. tests/unit/tables/test_worker.py has all pairs of steps."""
    for fail_at, again_at in (*((step, 99) for step in range(8)), *((4, step) for step in range(2, 8))):
        location = str(tmp_path / f"{fail_at}-{again_at}")
        for step in (fail_at, again_at):
            try:
                await fill(JsonCluster(*VALUES), FailingStore(DeltaStore(location, "t", TOPIC_ID), step))
            except StoreFailure as killed:
                assert str(killed) == "killed"
        await fill(JsonCluster(*VALUES), DeltaStore(location, "t", TOPIC_ID))
        assert kept(location) == (ROWS, LETTERS), (fail_at, again_at)
        shutil.rmtree(location)


async def second_writer(location: str) -> None:
    """It has loaded before the first one commits, and is refused whatever it does later."""
    late = DeltaStore(location, "t", TOPIC_ID)
    loaded = late.load(range(2))
    cluster = JsonCluster(*VALUES)
    await fill(cluster, DeltaStore(location, "t", TOPIC_ID))
    batch = Batch()
    batch.offsets = {0: 1}
    with pytest.raises(CommitConflict):
        late.append(batch.plan(loaded.schema, decode))
    with pytest.raises(CommitConflict):
        late.append_letters([], {0: 4})
    assert kept(location) == (ROWS, LETTERS)


async def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    await second_writer(str(tmp_path))


def compact(store: TopicStore) -> None:
    store.maintain()


@pytest.mark.parametrize(("move", "more"), [(commit_partition_0, [(0, 1)]), (compact, [])])
def test_a_second_writer_that_is_behind_in_one_partition_is_refused_there_alone(
    move: Callable[[TopicStore], None], more: list[tuple[int, int]], tmp_path: Path
) -> None:
    """Delta itself compares identifiers with commits after the writer's version only, and move goes past them."""
    writers = [DeltaStore(str(tmp_path), "t", TOPIC_ID) for _ in range(2)]
    moved_on(writers[0], writers[1], move)
    assert kept(str(tmp_path)) == (sorted([(0, 0), (1, 0), (1, 1), (1, 2), *more]), [])


def test_a_writer_goes_on_beside_compactions(tmp_path: Path) -> None:
    """Of its own and of others: its offsets are as it left them."""
    store, other = (DeltaStore(str(tmp_path), "t", TOPIC_ID) for _ in range(2))
    store.load(range(2))
    store.append(plan_of((0, 0), (1, 0)))
    for offset in range(1, 4):
        store.append(plan_of((0, offset)))
        other.load(range(2))
        other.maintain()
        store.append(plan_of((1, offset)))
        store.maintain()
    assert kept(str(tmp_path))[0] == [(partition, offset) for partition in range(2) for offset in range(4)]


@pytest.mark.parametrize(("mark", "accepted"), [("p0", False), ("p1", True)])
def test_delta_compares_identifiers_with_commits_that_come_while_it_writes(
    mark: str, accepted: bool, tmp_path: Path
) -> None:
    """A write goes onto the version that its DeltaTable has, and compares all later ones, as tables/delta.py needs."""
    uri, schema = str(tmp_path), pa.schema([("a", pa.int64())])

    def write(table: DeltaTable, data: object, identifier: str, offset: int) -> None:
        marks = [Transaction(identifier, offset)]
        properties = CommitProperties(app_transactions=marks)
        write_deltalake(table, data, mode="append", schema_mode="merge", commit_properties=properties)

    def commit_between() -> Iterator[pa.RecordBatch]:
        beside.start()  # the thread that asks for the batch runs delta-rs
        beside.join()
        yield pa.record_batch({"a": [1]})

    table = DeltaTable.create(uri, schema)
    beside = threading.Thread(target=write, args=(DeltaTable(uri), pa.table({"a": [2]}), mark, 1))
    data = pa.RecordBatchReader.from_batches(schema, commit_between())
    if accepted:
        write(table, data, "p0", 1)
    else:
        with pytest.raises(CommitFailedError):
            write(table, data, "p0", 1)
    assert DeltaTable(uri).version() == 1 + accepted


async def test_the_tables_lie_on_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes that refuse what is there are what keeps two writers apart."""
    with s3_environ() as environ:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        await second_writer("s3://lake/kafka")


async def test_all_readers_see_a_table_that_grew(spark: SparkSession, tmp_path: Path) -> None:
    """New columns, a topic made again, a compaction."""
    location = str(tmp_path)
    cluster = JsonCluster(
        [{"id": 1, "name": "å"}, {"id": 2, "price": 1.5, "tags": ["x"]}, {"id": 2**62, "paid": True}, b"no"]
    )
    for end in range(1, 5):
        cluster.ends = [end]
        await fill(cluster, DeltaStore(location, "t", TOPIC_ID))
    other = UUID(int=8)
    await fill(JsonCluster([{"id": 3, "new.field": "y"}]), DeltaStore(location, "t", other), topic_id=other)
    assert rows_for_all(spark, f"{location}/tables/t") == 4
    assert rows_for_all(spark, f"{location}/dead-letters/t") == 1
    table = spark.read.format("delta").load(f"{location}/tables/t")
    found = table.orderBy("_kafka_topic_id", "_kafka_offset").select("id", "name", "price", "tags", "paid", "new_field")
    assert [tuple(row) for row in found.collect()] == [
        (1, "å", None, None, None, None),
        (2, None, 1.5, '["x"]', None, None),
        (2**62, None, None, None, True, None),
        (3, None, None, None, None, "y"),
    ]


async def test_all_readers_see_the_columns_of_avro_records(spark: SparkSession, tmp_path: Path) -> None:
    location, noon = str(tmp_path), datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
    types = {
        "id": "long",
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "day": {"type": "int", "logicalType": "date"},
        "raw": "bytes",
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "tags": {"type": "array", "items": "string"},
    }
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": t} for name, t in types.items()]}
    row = {"id": 1, "at": noon, "day": noon.date(), "raw": b"\xff", "price": Decimal("2.50"), "tags": ["x"]}
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), row)
    with schema_registry({"7": {"schema": json.dumps(schema)}}) as url:
        decode_avro = RegistryDecoder(RegisteredSchemas(HttpRegistry(url)), lambda: 0.0).decode
        cluster = JsonCluster([framed(7, target.getvalue()), framed(8, b"")])
        await fill(cluster, DeltaStore(location, "t", TOPIC_ID), decode=decode_avro)
    assert rows_for_all(spark, f"{location}/tables/t") == rows_for_all(spark, f"{location}/dead-letters/t") == 1
    kept = row | {"price": "2.50", "tags": '["x"]'}
    expected = {name: kept[name] for name in types}
    (found,) = spark.read.format("delta").load(f"{location}/tables/t").select(*types).collect()
    assert {**found.asDict(), "at": found["at"].astimezone(datetime.UTC), "raw": bytes(found.raw)} == expected
    assert DeltaTable(f"{location}/tables/t").to_pyarrow_table(columns=list(types)).to_pylist() == [expected]


CONFIGS = {"tailrace.table": "delta", "tailrace.table.commit.interval.ms": "100"}


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[SparkCluster]:
    """Two brokers, and the worker that `up` starts for the first topic that asks."""
    with SparkCluster(brokers=2) as running:
        yield running


def produce(cluster: SparkCluster, topic: str, numbers: range) -> None:
    """One record in ten is no JSON."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in numbers:
        value = json.dumps({"id": number}).encode() if number % 10 else b"not JSON %d" % number
        producer.produce(topic, value, partition=number % 2)
    assert producer.flush(HUNG_S) == 0


def ids(location: str, topic: str) -> list[int]:
    """Of all records, rows and dead letters."""
    rows = DeltaTable(f"{location}/tables/{topic}").to_pyarrow_table(columns=["id"])["id"].to_pylist()
    dead = DeltaTable(f"{location}/dead-letters/{topic}").to_pyarrow_table(columns=["_kafka_value"])
    return sorted([*rows, *(int(value.split()[-1]) for value in dead["_kafka_value"].to_pylist())])


def version(location: str, topic: str) -> int:
    uri = f"{location}/tables/{topic}"
    return DeltaTable(uri).version() if DeltaTable.is_deltatable(uri) else -1


def has_grown(location: str, topic: str, seen: int) -> bool:
    return version(location, topic) > seen


def start(cluster: SparkCluster, location: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen((*RUN, "--bootstrap", cluster.bootstrap, "--target", location, *arguments))


def test_up_starts_the_worker_when_a_topic_asks(own_cluster: SparkCluster) -> None:
    """It has a transaction that is aborted, which is in no table."""
    running = own_cluster.data_dir / "run" / "table-0.json"
    topic = own_cluster.create("asks", partitions=2, configs=CONFIGS)
    producer = Producer({"bootstrap.servers": own_cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b'{"id": -1}', partition=0)
    producer.flush(HUNG_S)
    producer.abort_transaction()
    produce(own_cluster, topic, range(40))
    location = str(own_cluster.data_dir)
    until(lambda: version(location, topic) > 0 and ids(location, topic) == list(range(40)), "the table")
    assert running.exists()


def test_a_worker_that_is_killed_again_and_again_beside_another_loses_nothing(
    own_cluster: SparkCluster, tmp_path: Path
) -> None:
    topic = own_cluster.create("killed", partitions=2, configs=CONFIGS)
    location = str(tmp_path)
    beside = start(own_cluster, location, "--topic", topic)
    try:
        for round_ in range(4):
            seen = version(location, topic)
            worker = start(own_cluster, location, "--topic", topic)
            produce(own_cluster, topic, range(round_ * 100, round_ * 100 + 50))
            until(partial(has_grown, location, topic, seen), "a commit")
            produce(own_cluster, topic, range(round_ * 100 + 50, round_ * 100 + 100))
            worker.kill()
            assert worker.wait() == -signal.SIGKILL
    finally:
        beside.kill()
        beside.wait()
    for _ in range(2):
        assert start(own_cluster, location, "--topic", topic, "--once").wait() == 0
    assert ids(location, topic) == list(range(400))


def test_a_topic_that_is_made_again_goes_on_in_its_table(own_cluster: SparkCluster, tmp_path: Path) -> None:
    topic = own_cluster.create("again", partitions=2, configs=CONFIGS)
    location = str(tmp_path)
    produce(own_cluster, topic, range(40))
    worker = start(own_cluster, location, "--topic", topic)
    try:
        until(lambda: version(location, topic) > 0 and ids(location, topic) == list(range(40)), "the first topic")
        own_cluster.delete(topic)
        own_cluster.create_exactly(topic, 2, CONFIGS)
        produce(own_cluster, topic, range(100, 160))
        both = [*range(40), *range(100, 160)]
        until(lambda: ids(location, topic) == both, "the second topic")
    finally:
        worker.terminate()
        assert worker.wait() == 0


def test_a_worker_follows_a_leader_that_dies(tmp_path: Path) -> None:
    with SparkCluster(brokers=2) as running:
        topic = f"{TOPIC_ID.hex}"
        running.create_exactly(topic, 2, CONFIGS)
        location = str(tmp_path)
        worker = start(running, location)
        try:
            for round_, broker in enumerate((0, 1)):
                produce(running, topic, range(round_ * 50, round_ * 50 + 50))
                running.kill("broker", broker)
                produce(running, topic, range(100 + round_ * 50, 150 + round_ * 50))
            until(lambda: version(location, topic) > 0 and ids(location, topic) == list(range(200)), "all records")
        finally:
            worker.terminate()
            worker.wait()
