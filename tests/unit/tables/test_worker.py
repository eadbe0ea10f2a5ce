"""A topic's worker against a cluster of messages and tables in memory: killed at every step, beside a second one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from uuid import UUID

import pytest

from support.schema_registry import NOT_FOUND, framed
from support.topic_tables import (
    FailingStore,
    JsonCluster,
    commit_partition_0,
    fill,
    kept,
    memory_store,
    moved_on,
    worker,
)
from tailrace.errors import ApiError, ErrorCode
from tailrace.tables.batch import Batch
from tailrace.tables.fields.field import SchemaFailure
from tailrace.tables.fields.json_fields import decode
from tailrace.tables.fields.registry import RegisteredSchemas, RegistryDecoder
from tailrace.tables.store import CommitConflict, MemoryTables, StoreFailure

VALUES = ([{"a": 1}, b"no", {"a": "x"}, {"b": 1.5}], [{"a": 2}, {"a": 3, "b": 1}, b"[]"])
ROWS = [(0, 0), (0, 3), (1, 0), (1, 1)]
LETTERS = [(0, 1), (0, 2), (1, 2)]
AVRO_SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})
REASONS = ["the schema registry has no schema 2", "no schema id", "does not match its Avro schema"]


async def test_each_record_is_a_row_or_a_dead_letter() -> None:
    tables = MemoryTables()
    await fill(JsonCluster(*VALUES), memory_store(tables))
    assert kept(tables) == (ROWS, LETTERS)
    assert tables.schema == {"a": "long", "b": "double"}
    assert next(letter.reason for _, letter in tables.letters) == "not JSON: Expecting value at character 0"


async def test_a_second_run_begins_where_the_first_one_ended() -> None:
    tables, cluster = MemoryTables(), JsonCluster([{"a": 1}, {"a": 2}])
    cluster.ends = [1]
    await fill(cluster, memory_store(tables))
    cluster.ends = [2]
    await fill(cluster, memory_store(tables))
    assert kept(tables)[0] == [(0, 0), (0, 1)]


@pytest.mark.parametrize("fail_at", range(10))
@pytest.mark.parametrize("again_at", [0, 2, 3, 4, 5, 6, 7, 99])
async def test_a_worker_killed_at_any_step_leaves_each_record_once(fail_at: int, again_at: int) -> None:
    """And the one after it, which may be busy with what the first one left open."""
    tables, cluster = MemoryTables(), JsonCluster(*VALUES)
    for step in (fail_at, again_at):
        try:
            await fill(cluster, FailingStore(memory_store(tables), step))
        except StoreFailure:
            continue
    await fill(cluster, memory_store(tables))
    assert kept(tables) == (ROWS, LETTERS)


async def test_a_second_writer_changes_nothing() -> None:
    """It has loaded before the first one commits, and is refused whatever it does later."""
    tables, cluster = MemoryTables(), JsonCluster(*VALUES)
    late = memory_store(tables)
    loaded = late.load(range(2))
    await fill(cluster, memory_store(tables))
    with pytest.raises(CommitConflict):
        late.append(Batch().plan(loaded.schema, decode))
    with pytest.raises(CommitConflict):
        late.append_letters([], {0: 1})
    assert kept(tables) == (ROWS, LETTERS)


def test_a_second_writer_that_is_behind_in_one_partition_is_refused_there_alone() -> None:
    tables = MemoryTables()
    moved_on(memory_store(tables), memory_store(tables), commit_partition_0)
    assert kept(tables) == ([(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)], [])


async def test_a_topic_that_was_made_again_is_read_from_its_beginning() -> None:
    tables = MemoryTables()
    await fill(JsonCluster([{"a": 1}, {"a": 2}]), memory_store(tables))
    other = UUID(int=8)
    await fill(JsonCluster([{"a": 3}]), memory_store(tables, other), topic_id=other)
    assert [(topic_id.int, row.record.offset, row.fields["a"]) for topic_id, row in tables.rows] == [
        (7, 0, 1),
        (7, 1, 2),
        (8, 0, 3),
    ]


async def test_a_topic_id_that_the_cluster_has_no_more_ends_the_worker() -> None:
    tables, cluster = MemoryTables(), JsonCluster([{"a": 1}])
    cluster.codes = [ErrorCode.UNKNOWN_TOPIC_ID]
    with pytest.raises(ApiError):
        await fill(cluster, memory_store(tables))
    assert kept(tables) == ([], [])


async def test_a_leader_that_moves_is_followed() -> None:
    tables, cluster = MemoryTables(), JsonCluster([{"a": 1}, {"a": 2}])
    cluster.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    await fill(cluster, memory_store(tables))
    assert kept(tables)[0] == [(0, 0), (0, 1)]


async def test_a_worker_that_is_stopped_commits_what_it_has() -> None:
    tables, cluster = MemoryTables(), JsonCluster([{"a": 1}, {"a": 2}])
    stops = iter([False, True])
    await worker(cluster, memory_store(tables)).run(lambda: next(stops))
    assert kept(tables)[0] == [(0, 0)]


@pytest.mark.parametrize("fail_at", range(10))
async def test_avro_records_whose_schema_fails_at_any_step_are_each_there_once(fail_at: int) -> None:
    """A registry that goes away ends the worker as a death does, also while it settles dead letters."""
    schema = json.dumps({"schema": AVRO_SCHEMA})
    values = [framed(1, b"\x02"), framed(2, b"\x02"), b"no", framed(1, b"\x04"), framed(1, b"")]
    tables, cluster = MemoryTables(), JsonCluster(values)
    answers = {"/schemas/ids/1": (200, schema.encode()), "/schemas/ids/2": (404, json.dumps(NOT_FOUND).encode())}
    for step in (fail_at, 99):
        for is_away in (True, False):
            asked = itertools.count()

            def get(path: str, is_away: bool = is_away, asked: Iterator[int] = asked) -> tuple[int, bytes]:
                if is_away and next(asked):
                    raise SchemaFailure("away")
                return answers[path]

            try:
                store = FailingStore(memory_store(tables), step)
                await fill(cluster, store, decode=RegistryDecoder(RegisteredSchemas(get), lambda: 0.0).decode)
            except (StoreFailure, SchemaFailure):
                continue
    assert kept(tables) == ([(0, 0), (0, 3)], [(0, 1), (0, 2), (0, 4)])
    assert [row.fields for _, row in tables.rows] == [{"a": 1}, {"a": 2}]
    assert [letter.reason.partition(":")[0] for _, letter in tables.letters] == REASONS
