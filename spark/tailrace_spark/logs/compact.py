"""Against small files: the segments of one source and hour become one, in one commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from pyspark.sql import SparkSession

from tailrace_spark.logs import store
from tailrace_spark.logs.manifest import Commit, State, TableSegment
from tailrace_spark.logs.schema import LOG
from tailrace_spark.logs.table import Table

MIN_SEGMENTS = 4
TARGET_BYTES = 128 << 20


def plan(
    state: State, min_segments: int = MIN_SEGMENTS, target_bytes: int = TARGET_BYTES
) -> list[tuple[TableSegment, ...]]:
    """The groups worth doing: `min_segments` or more of one source and hour that are smaller than the target.

    One group has about `target_bytes` at most, so that a compaction never needs to hold more, and a segment that has
    grown to half of that is left alone.
    """
    small: dict[tuple[str, str], list[TableSegment]] = defaultdict(list)
    for segment in sorted(state.segments.values(), key=lambda each: (each.first_us, each.id)):
        if segment.size_bytes < target_bytes // 2:
            small[segment.source, segment.hour].append(segment)
    groups = [group for key in sorted(small) for group in cut(small[key], target_bytes)]
    return [group for group in groups if len(group) >= min_segments]


def cut(segments: Iterable[TableSegment], target_bytes: int) -> list[tuple[TableSegment, ...]]:
    """Runs of segments of at most so many bytes together."""
    runs: list[list[TableSegment]] = [[]]
    for segment in segments:
        if runs[-1] and sum(each.size_bytes for each in runs[-1]) + segment.size_bytes > target_bytes:
            runs.append([])
        runs[-1].append(segment)
    return [tuple(run) for run in runs if run]


def compact(
    spark: SparkSession,
    table: Table,
    say: Callable[[str], None],
    min_segments: int = MIN_SEGMENTS,
    most: int | None = None,
) -> int:
    """Does what `plan` says, `most` groups of it; returns how many segments went.

    Safe to kill at any time, and beside a running job.
    """
    gone = 0
    for group in plan(table.state(), min_segments)[:most]:
        paths = [file.path for segment in group for file in segment.data]
        rows = sum(segment.rows for segment in group)
        lines = store.read_data(spark, table, "data", paths).select(*(field.name for field in LOG.fields))
        written = store.write(lines, table, rows)
        assert sum(segment.rows for segment in written) == rows, "a compaction keeps every line"
        if table.commit(Commit(add=written, remove=tuple(segment.id for segment in group))) is None:
            discard(table, written)
            continue
        gone += len(group)
        say(f"compacted {group[0].source} {group[0].hour}: {len(group)} segments into 1, {rows:,} lines")
    return gone


def discard(table: Table, segments: Iterable[TableSegment]) -> None:
    """Deletes the files of segments that were not committed."""
    for segment in segments:
        for path in segment.paths:
            table.files.delete(path)
