"""A reader sees each line once, whatever dies at whatever moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.log_frames import parsed_lines
from support.log_lines import Line, lines
from tailrace_spark.logs import store
from tailrace_spark.logs.compact import compact, cut, plan
from tailrace_spark.logs.files import Found, HadoopFiles, LocalFiles, TableFiles
from tailrace_spark.logs.manifest import (
    Commit,
    DataFile,
    State,
    TableSegment,
    read_commit,
    read_state,
    write_commit,
    write_state,
)
from tailrace_spark.logs.table import SNAPSHOT_EVERY, Table


class Killed(Exception):
    """The process is gone."""


class Mortal(LocalFiles):
    """Dies before the operation on files that is numbered so."""

    def __init__(self, root: Path, after: int) -> None:
        super().__init__(root)
        self.left = after

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def create(self, path: str, data: bytes) -> bool:
        self.step()
        return super().create(path, data)

    def move(self, path: str, to: str) -> None:
        self.step()
        super().move(path, to)

    def delete(self, path: str) -> None:
        self.step()
        super().delete(path)


def segment(name: str, rows: int = 1, size: int = 10, source: str = "web") -> TableSegment:
    data = DataFile(f"data/{name}", rows, size, 0, 1)
    return TableSegment(name, source, "2026-11-21-16", (data,), ((f"index/{name}", size),), 1, 2)


def offsets(spark: SparkSession, table: Table) -> Counter[int]:
    paths = [file.path for each in table.state().segments.values() for file in each.data]
    return Counter(row.offset for row in store.read_data(spark, table, "data", paths).select("offset").collect())


def test_commits_and_snapshots_are_the_same_after_a_round_trip() -> None:
    commit = Commit((segment("a"), segment("b")), (), "query", 7)
    assert read_commit(write_commit(commit)) == commit
    state = State().apply(commit)
    assert read_state(write_state(state)) == state


def test_a_batch_is_added_once_and_a_segment_removed_once() -> None:
    state = State().apply(Commit((segment("a"),), query="query", batch=3))
    assert not state.may(Commit((segment("b"),), query="query", batch=3))
    assert state.may(Commit((segment("b"),), query="query", batch=4))
    assert state.may(Commit((segment("b"),), query="other", batch=3))
    compacted = state.apply(Commit((segment("c"),), ("a",)))
    assert not compacted.may(Commit((segment("d"),), ("a",)))
    assert list(compacted.segments) == ["c"]


def test_two_writers_meet_and_both_are_in(table: Table) -> None:
    other = Table(table.files)
    table.state(), other.state()
    assert table.commit(Commit((segment("a"),))) is not None
    assert other.commit(Commit((segment("b"),))) is not None
    assert set(table.state().segments) == {"a", "b"}
    assert table.commit(Commit((segment("c"),), ("a",))) is not None
    assert other.commit(Commit((segment("d"),), ("a",))) is None


def test_a_fresh_reader_starts_at_the_last_snapshot(table: Table) -> None:
    for number in range(SNAPSHOT_EVERY + 3):
        table.commit(Commit((segment(f"s{number}"),)))
    for found in table.files.list("commits")[:SNAPSHOT_EVERY]:
        table.files.delete(found.path)
    assert len(Table(table.files).state().segments) == SNAPSHOT_EVERY + 3


def test_what_is_worth_compacting() -> None:
    segments = [segment(f"s{number}", size=10 if number else 100) for number in range(6)]
    state = State(segments={each.id: each for each in segments})
    assert [[each.id for each in group] for group in plan(state, 4, 200)] == [["s1", "s2", "s3", "s4", "s5"]]
    assert plan(state, 6, 200) == []
    assert [len(run) for run in cut(segments[1:], 45)] == [2, 2, 1]


@pytest.mark.parametrize("kind", ["local", "hadoop"])
def test_files_by_either_way(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    files: TableFiles = LocalFiles(tmp_path) if kind == "local" else HadoopFiles(spark, f"file://{tmp_path}")
    assert files.list("commits") == []
    assert files.create("commits/1", b"one") and not files.create("commits/1", b"two")
    assert files.read("commits/1") == b"one"
    files.move("commits/1", "deep/down/1")
    assert [(found.path, found.size_bytes) for found in files.list("deep")] == [("deep/down/1", 3)]
    with pytest.raises(FileNotFoundError):
        files.read("commits/1")
    files.delete("deep")
    files.delete("deep")
    assert files.list("") == []


def test_a_compaction_killed_before_any_step_loses_and_repeats_nothing(
    spark: SparkSession, add: Callable[[list[Line]], None], table: Table, tmp_path: Path
) -> None:
    every = list(lines(120, seed=5, broken_every=0))
    for line in (Line("web", every[0].at, each.value) for each in every[:2]):
        add([line, line])
    before = offsets(spark, table)
    paths = {path for each in table.state().segments.values() for path in each.paths}
    steps = 0
    while True:
        mortal = Table(Mortal(tmp_path / "logs", steps))
        try:
            gone = compact(spark, mortal, print, min_segments=2)
            break
        except Killed:
            steps += 1
            fresh = Table(LocalFiles(tmp_path / "logs"))
            assert offsets(spark, fresh) == before
    assert gone > 0 and steps >= 4
    assert offsets(spark, table) == before
    assert paths <= {found.path for found in table.files.list("")}, "an older reader still has its files"


def test_vacuum_leaves_what_is_live_and_what_is_young(
    spark: SparkSession, add: Callable[[list[Line]], None], table: Table
) -> None:
    for seed in range(2):
        add([Line("web", line.at, line.value) for line in lines(3, seed, 0)])
    before = offsets(spark, table)
    old = {path for each in table.state().segments.values() for path in each.paths}
    compact(spark, table, print, min_segments=2)
    table.files.create("data/source=web/hour=x/litter.parquet", b"")
    assert table.vacuum(0, print) == 0
    assert table.vacuum(1 << 62, print) >= 1
    left: list[Found] = table.files.list("data") + table.files.list("index")
    assert {found.path for found in left} == {path for each in table.state().segments.values() for path in each.paths}
    assert old.isdisjoint(found.path for found in left) or len(old) < 4
    assert offsets(spark, table) == before


def test_nothing_to_write_is_no_segment(spark: SparkSession, table: Table) -> None:
    assert store.write(parsed_lines(spark, lines(1, 1)).where("false"), table, 0) == ()
