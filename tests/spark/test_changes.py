"""Change data capture: the table is what the source has, whatever comes twice, late, or without use."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from support.spark_cluster import Record, SparkCluster
from support.spark_frames import record, records
from support.table_readers import rows_for_all
from tailrace_spark import dead_letter
from tailrace_spark.changes import job, table
from tailrace_spark.changes.columns import ChangeColumn, columns_of, union
from tailrace_spark.changes.job import ChangeBatches
from tailrace_spark.changes.table import ChangedTable
from tailrace_spark.job import JobRun
from tailrace_spark.refusal import Refusal
from tailrace_spark.tables import delta

FIELDS = (
    {"field": "id", "type": "int64", "optional": False},
    {"field": "name", "type": "string", "optional": True},
    {"field": "at", "type": "int64", "optional": True, "name": "io.debezium.time.MicroTimestamp"},
)
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOON_US = 1_795_262_400_000_000


def schema(*more: Mapping[str, Any]) -> str:
    row = [*FIELDS, *more]
    parts = ({"field": name, "type": "struct", "fields": row} for name in ("before", "after"))
    return json.dumps({"type": "struct", "fields": [*parts, {"field": "op", "type": "string"}]})


def event(op: str, lsn: int, id: int, name: str | None = None, more: Mapping[str, Any] | None = None) -> bytes:
    """As Debezium's JSON converter writes it, with the schema."""
    row = {"id": id, "name": name, "at": NOON_US, **(more or {})}
    before, after = ({"id": id}, None) if op == "d" else (None, row)
    said = {"before": before, "after": after, "op": op, "source": {"lsn": lsn, "table": "customers"}}
    described = json.loads(schema(*({"field": key, "type": "int32"} for key in more or {})))
    return json.dumps({"schema": described, "payload": said}).encode()


def test_columns_are_those_of_the_schema() -> None:
    price = {"field": "price", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}
    assert columns_of(schema({"field": "tags", "type": "array"}, price)) == (
        ChangeColumn("id", "bigint"),
        ChangeColumn("name", "string"),
        ChangeColumn("at", "bigint", "timestamp_micros({})"),
        ChangeColumn("tags", "string"),
        ChangeColumn("price", "binary"),
    )
    for none in ("{}", "5", "{", "[]", '{"fields": 1}', '{"fields": [{"field": "after"}]}', '{"fields": [[]]}'):
        assert columns_of(none) == ()


def test_columns_of_several_schemas_have_the_newest_type() -> None:
    old, new = ChangeColumn("a", "int"), ChangeColumn("a", "bigint")
    b, c = ChangeColumn("b", "int"), ChangeColumn("c", "int")
    assert union([(new, c), (), (old, b)]) == (new, b, c)


class Captured:
    """The table, and batches that are made without a topic."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.table = ChangedTable(str(folder / "customers"), ("id",))
        self.said: list[str] = []
        options = job.JOB.given(topic="customers", optimize_every=3)
        self.batches = ChangeBatches(self.table, options, self.said.append)
        self.offset = 0

    def take(self, *events: bytes | None, times: int = 1) -> None:
        rows = [record(self.offset + n, value, topic="customers", key=b"k") for n, value in enumerate(events)]
        self.offset += len(rows)
        for _ in range(times):
            self.batches.take(records(self.spark, rows), len(self.said))

    def rows(self) -> dict[int, str | None]:
        found = delta.read(self.spark, self.table.rows).collect()
        assert len({row.id for row in found}) == len(found), "no row twice"
        return {row.id: row.name for row in found}


def test_events_in_their_order_make_the_table(spark: SparkSession, tmp_path: Path) -> None:
    captured = Captured(spark, tmp_path)
    captured.take(event("r", 1, 1, "ann"), event("r", 1, 2, "bob"), event("c", 5, 3, "cid"), event("u", 6, 3, "cyd"))
    assert captured.rows() == {1: "ann", 2: "bob", 3: "cyd"}
    captured.take(event("d", 7, 2), None, event("u", 8, 1, None), times=2)  # the driver died behind the merge
    assert captured.rows() == {1: None, 3: "cyd"}
    captured.take(event("c", 5, 3, "cid"), event("r", 1, 2, "bob"))  # the connector sends old events again
    assert captured.rows() == {1: None, 3: "cyd"}
    captured.take(event("c", 9, 2, "bea", more={"age": 7}))  # made anew, and the source has one column more
    assert captured.rows() == {1: None, 2: "bea", 3: "cyd"}
    row = delta.read(spark, captured.table.rows).where("id = 2").collect()[0]
    assert (row.age, row["at"].astimezone(UTC)) == (7, NOON)
    assert rows_for_all(spark, captured.table.rows) == 3 and rows_for_all(spark, captured.table.deleted) == 1
    assert captured.said[1] == "changes batch 1: events of 2 rows, 1 tombstones, no dead letters"


def test_a_source_may_name_its_columns_as_a_record_does(spark: SparkSession, tmp_path: Path) -> None:
    captured = Captured(spark, tmp_path)
    names = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "event", "reason", "row")
    more = {name: number for number, name in enumerate(names)}
    captured.take(event("c", 1, 1, "ann", more), event("u", 2, 1, "bob", more))
    (row,) = delta.read(spark, captured.table.rows).collect()
    assert row.name == "bob" and {name: row[name] for name in names} == more


def test_events_of_an_older_schema_take_no_column_away(spark: SparkSession, tmp_path: Path) -> None:
    captured = Captured(spark, tmp_path)
    captured.take(event("c", 5, 2, "bob", {"age": 7}), event("c", 1, 1, "ann"))
    captured.take(event("c", 6, 3, "cid"))
    found = {row.id: row.age for row in delta.read(spark, captured.table.rows).collect()}
    assert found == {1: None, 2: 7, 3: None}
    assert [column.name for column in captured.batches.known] == ["id", "name", "at", "age"]


def test_a_job_that_is_started_again_knows_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Of a schema that no later event has, and of events without one."""
    Captured(spark, tmp_path).take(event("c", 5, 2, "bob", {"it's\\age": 7}))
    again = Captured(spark, tmp_path)
    again.take(json.dumps({"op": "u", "after": {"id": 2, "name": "ben", "at": NOON_US}, "source": {"lsn": 6}}).encode())
    (row,) = delta.read(spark, again.table.rows).collect()
    assert (row.id, row.name, row["it's\\age"], row["at"].astimezone(UTC)) == (2, "ben", None, NOON)


def test_a_column_with_a_name_of_the_jobs_own_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("_op", "_Position"):
        with pytest.raises(Refusal, match=f"{name} is a column of the job's own"):
            Captured(spark, tmp_path).take(event("c", 1, 1, "ann", {name: 1}))


def test_a_merge_that_meets_another_commit_is_done_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = Captured(spark, tmp_path)
    failures = [PySparkException("[DELTA_CONCURRENT_DELETE_READ] compacted"), None]
    whole = table.add_columns

    def add_columns(*given: Any) -> None:
        if failures and (failure := failures.pop(0)):
            raise failure
        whole(*given)

    monkeypatch.setattr(table, "add_columns", add_columns)
    captured.take(event("c", 1, 1, "ann"), event("d", 2, 2))
    assert failures == [] and captured.rows() == {1: "ann"}
    failures += [PySparkException("[DELTA_CONCURRENT_DELETE_READ] again")] * table.ATTEMPTS
    with pytest.raises(PySparkException, match="again"):
        captured.take(event("c", 3, 3, "cid"))


def test_events_again_and_in_any_order_end_the_same(spark: SparkSession, tmp_path: Path) -> None:
    captured = Captured(spark, tmp_path)
    chance = random.Random(3)
    truth: dict[int, str | None] = {}
    history = []
    for lsn in range(1, 60):
        key = chance.randrange(8)
        if key in truth and chance.random() < 0.3:
            del truth[key]
            history.append(event("d", lsn, key))
        else:
            history.append(event("u" if key in truth else "c", lsn, key, f"v{lsn}"))
            truth[key] = f"v{lsn}"
    again = [*history, *chance.sample(history, 20)]
    chance.shuffle(again)
    for start in range(0, len(again), 40):
        captured.take(*again[start : start + 40])
    assert captured.rows() == truth


def test_what_cannot_be_used_goes_to_the_dead_letters_and_tombstones_do_not(
    spark: SparkSession, cluster: SparkCluster, tmp_path: Path
) -> None:
    topic = cluster.create("customers")
    cluster.create_exactly(topic + dead_letter.SUFFIX)
    reasons = {
        b"<html>": "not JSON",
        b"{}": "no op",
        b'{"op": "t", "source": {"lsn": 1}}': "op t is not applied",
        b'{"op": "c", "after": {"name": "x"}}': "no key",
        b'{"op": "c", "after": {"id": "one"}}': "does not fit the columns",
    }
    good = b'{"op": "c", "before": null, "after": {"id": 1, "name": "ann"}, "source": {"file": "b.1", "pos": 4}}'
    values = [*reasons, good, None]
    cluster.produce(topic, [Record(value, key=b"k") for value in values])
    options = job.JOB.given(
        bootstrap=cluster.bootstrap,
        topic=topic,
        key="id",
        columns="id bigint, name string",
        checkpoint=str(tmp_path / "checkpoint"),
        output=str(tmp_path / "customers"),
        trigger="now",
    )
    said: list[str] = []
    job.run(JobRun(spark, options, said.append))
    letters = {record.value: dict(record.headers) for record in cluster.read(topic + dead_letter.SUFFIX)}
    assert {value: told["dead-letter.reason"].decode() for value, told in letters.items()} == reasons
    rows = delta.read(spark, f"{options.output}/rows").collect()
    assert [(row.id, row.name) for row in rows] == [(1, "ann")]
    assert said[0].startswith("changes batch 0: events of 1 rows, 1 tombstones, 5 dead letters")


def test_events_that_describe_no_row_do_not_stop_the_job(
    spark: SparkSession, cluster: SparkCluster, tmp_path: Path
) -> None:
    topic = cluster.create("customers")
    cluster.create_exactly(topic + dead_letter.SUFFIX)
    times = {
        "said": {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        "ms": {"type": "int64", "name": "io.debezium.time.Timestamp"},
    }
    described = json.loads(schema(*({"field": name, **told} for name, told in times.items())))

    def timed(id: int, said: str, ms: int) -> bytes:
        row = {"id": id, "name": "ann", "said": said, "ms": ms}
        return json.dumps({"schema": described, "payload": {"op": "c", "after": row}}).encode()

    reasons = {
        timed(1, "yesterday", 1): "does not fit the columns",
        timed(2, "2026-11-21T12:00:00Z", 2**63 - 1): "does not fit the columns",
        b'{"schema": {"fields": [{"field": "ts_ms", "type": "int64"}]}, "payload": {"ts_ms": 1}}': "no op",
        b'{"schema": {"fields": [{"field": "after"}]}, "payload": {"ts_ms": 2}}': "no op",
        b'{"schema": 5, "payload": {"ts_ms": 3}}': "no op",
        b'{"schema": [], "payload": 4}': "does not fit the columns",
    }
    values = [timed(3, "2026-11-21T12:00:00Z", NOON_US // 1000), *reasons]
    cluster.produce(topic, [Record(value, key=b"k") for value in values])
    options = job.JOB.given(
        bootstrap=cluster.bootstrap,
        topic=topic,
        key="id",
        checkpoint=str(tmp_path / "checkpoint"),
        output=str(tmp_path / "customers"),
        trigger="now",
    )
    job.run(JobRun(spark, options, print))
    letters = {record.value: dict(record.headers) for record in cluster.read(topic + dead_letter.SUFFIX)}
    assert {value: told["dead-letter.reason"].decode() for value, told in letters.items()} == reasons
    (row,) = delta.read(spark, f"{options.output}/rows").collect()
    assert (row.id, row.said.astimezone(UTC), row.ms.astimezone(UTC)) == (3, NOON, NOON)
