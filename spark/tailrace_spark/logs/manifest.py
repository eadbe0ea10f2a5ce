"""Which files a table of log lines is made of. Pure: a state, commits that change it, and both as JSON.

A reader takes the files that the commits up to some version name, so that a write or a compaction is there whole or
not at all. A commit is one file named by its version that only one writer can create; the others go on from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of log lines, sorted by timestamp; its blocks are numbered in that order."""

    path: str  # from the table's folder on
    rows: int
    size_bytes: int
    first_block: int
    last_block: int


@dataclass(frozen=True)
class TableSegment:
    """What one write added for one source and hour: data files, and the index of their terms."""

    id: str
    source: str
    hour: str
    data: tuple[DataFile, ...]
    index: tuple[tuple[str, int], ...]  # path, size in bytes
    first_us: int  # the timestamps of its lines, microseconds since 1970
    last_us: int

    @property
    def rows(self) -> int:
        """Lines."""
        return sum(file.rows for file in self.data)

    @property
    def size_bytes(self) -> int:
        """Data and index."""
        return sum(file.size_bytes for file in self.data) + sum(size for _, size in self.index)

    @property
    def paths(self) -> tuple[str, ...]:
        """All its files."""
        return (*(file.path for file in self.data), *(path for path, _ in self.index))


@dataclass(frozen=True)
class Commit:
    """One change. `query` and `batch` are a streaming query's, so that a batch that is tried again is added once."""

    add: tuple[TableSegment, ...] = ()
    remove: tuple[str, ...] = ()  # ids of segments
    query: str | None = None
    batch: int = -1


@dataclass(frozen=True)
class State:
    """The table at a version; version -1 is the empty one."""

    version: int = -1
    segments: Mapping[str, TableSegment] = field(default_factory=dict)
    batches: Mapping[str, int] = field(default_factory=dict)  # by query: the last batch that is in

    def has(self, query: str, batch: int) -> bool:
        """True where the batch is in already."""
        return self.batches.get(query, -1) >= batch

    def may(self, commit: Commit) -> bool:
        """False for a commit that another writer overtook: what it removes must be there, its batch must not."""
        if commit.query is not None and self.has(commit.query, commit.batch):
            return False
        return all(name in self.segments for name in commit.remove)

    def apply(self, commit: Commit) -> State:
        """The next version."""
        assert self.may(commit), "decided on the state it is applied to"
        segments = {name: segment for name, segment in self.segments.items() if name not in commit.remove}
        segments |= {segment.id: segment for segment in commit.add}
        batches = dict(self.batches)
        if commit.query is not None:
            batches[commit.query] = commit.batch
        return replace(self, version=self.version + 1, segments=segments, batches=batches)


def newest_first(segments: Iterable[TableSegment]) -> list[TableSegment]:
    """By their newest line."""
    return sorted(segments, key=lambda segment: (-segment.last_us, segment.id))


def write_commit(commit: Commit) -> bytes:
    """As stored."""
    return json.dumps(asdict(commit), separators=(",", ":")).encode()


def read_commit(data: bytes) -> Commit:
    """What write_commit wrote."""
    row = json.loads(data)
    return Commit(tuple(map(segment_of, row["add"])), tuple(row["remove"]), row["query"], row["batch"])


def write_state(state: State) -> bytes:
    """As stored: a snapshot, so that readers need not read every commit since the first."""
    segments = [asdict(segment) for segment in state.segments.values()]
    row = {"version": state.version, "segments": segments, "batches": dict(state.batches)}
    return json.dumps(row, separators=(",", ":")).encode()


def read_state(data: bytes) -> State:
    """What write_state wrote."""
    row = json.loads(data)
    segments = map(segment_of, row["segments"])
    return State(row["version"], {segment.id: segment for segment in segments}, row["batches"])


def segment_of(row: Mapping[str, Any]) -> TableSegment:
    """From JSON."""
    return TableSegment(
        row["id"],
        row["source"],
        row["hour"],
        tuple(DataFile(**file) for file in row["data"]),
        tuple((path, size) for path, size in row["index"]),
        row["first_us"],
        row["last_us"],
    )
