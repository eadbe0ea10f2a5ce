"""The port to a topic's two tables, and its twin in memory.

Rows and offsets are one commit, so that each record is in the table once or not at all. The dead letters of a commit
follow in the table of dead letters: the rows' commit says from which offset on there are some, and which ones they are
can always be seen again, because they are the records below its offsets that are not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from tailrace.tables.batch import DeadLetter, Plan, TableRow
from tailrace.tables.columns import Schema


class CommitConflict(Exception):
    """Another writer has committed records of the same partitions, or columns, first; nothing was written."""


class StoreFailure(Exception):
    """The tables cannot be read or written now; whether a commit came to be is unknown."""


class Position(NamedTuple):
    """How far a partition is in the tables; dead_from: where dead letters begin that may be missing, else None."""

    offset: int
    dead_from: int | None = None


class Loaded(NamedTuple):
    """The newest versions of the tables, onto which the next commits go."""

    schema: Schema
    positions: Mapping[int, Position]


class TopicStore(Protocol):
    """The tables of one topic id. Every method blocks, and raises CommitConflict or StoreFailure."""

    def load(self, partitions: Iterable[int]) -> Loaded: ...

    def append(self, plan: Plan) -> None:
        """Commits the rows, the offsets and where dead letters begin, of partitions that were loaded.

        Refused if the offset of one of them, or a column, is another than this writer loaded or appended last.
        """
        ...

    def append_letters(self, letters: Sequence[DeadLetter], offsets: Mapping[int, int]) -> None:
        """Commits dead letters, and up to which offset of each partition there are no more. Refused as append is."""
        ...

    def offsets_from(self, partition: int, offset: int) -> set[int]:
        """The offsets of a partition's rows from this one on."""
        ...

    def maintain(self) -> None:
        """Compacts, and deletes files that no recent version has."""
        ...


class MemoryTables:
    """The tables of a topic's name as they are kept: what every writer of them sees."""

    def __init__(self) -> None:
        self.schema: Schema = {}
        self.rows: list[tuple[UUID, TableRow]] = []
        self.letters: list[tuple[UUID, DeadLetter]] = []
        self.positions: dict[tuple[UUID, int], Position] = {}
        self.dead_positions: dict[tuple[UUID, int], int] = {}


class MemoryTopicStore:
    """A writer of tables in memory."""

    def __init__(self, tables: MemoryTables, topic_id: UUID) -> None:
        self._tables = tables
        self._topic_id = topic_id
        self._schema: Schema = {}
        self._offsets: dict[int, int] = {}  # that this writer loaded or committed last, as _dead_offsets
        self._dead_offsets: dict[int, int] = {}

    def load(self, partitions: Iterable[int]) -> Loaded:
        self._schema = self._tables.schema
        self._offsets, self._dead_offsets = self._kept(), self._kept_dead()
        found = {}
        for partition in partitions:
            if (at := self._tables.positions.get((self._topic_id, partition))) is not None:
                done = self._dead_offsets.get(partition)
                found[partition] = at._replace(dead_from=pending(at.dead_from, done))
        return Loaded(self._tables.schema, found)

    def append(self, plan: Plan) -> None:
        if self._schema != self._tables.schema:
            raise CommitConflict
        _compare(self._offsets, self._kept(), plan.offsets)
        self._schema = self._tables.schema = dict(plan.types)
        self._tables.rows += ((self._topic_id, row) for row in plan.rows)
        for partition, offset in plan.offsets.items():
            key = self._topic_id, partition
            old = self._tables.positions.get(key, Position(0))
            self._tables.positions[key] = Position(offset, plan.dead_from.get(partition, old.dead_from))
        self._offsets.update(plan.offsets)

    def append_letters(self, letters: Sequence[DeadLetter], offsets: Mapping[int, int]) -> None:
        _compare(self._dead_offsets, self._kept_dead(), offsets)
        self._tables.letters += ((self._topic_id, letter) for letter in letters)
        for partition, offset in offsets.items():
            self._tables.dead_positions[self._topic_id, partition] = offset
        self._dead_offsets.update(offsets)

    def offsets_from(self, partition: int, offset: int) -> set[int]:
        return {
            row.record.offset
            for topic_id, row in self._tables.rows
            if topic_id == self._topic_id and row.partition == partition and row.record.offset >= offset
        }

    def maintain(self) -> None: ...

    def _kept(self) -> dict[int, int]:
        return {key[1]: at.offset for key, at in self._tables.positions.items() if key[0] == self._topic_id}

    def _kept_dead(self) -> dict[int, int]:
        return {key[1]: offset for key, offset in self._tables.dead_positions.items() if key[0] == self._topic_id}


def _compare(known: Mapping[int, int], kept: Mapping[int, int], partitions: Iterable[int]) -> None:
    if any(known.get(partition) != kept.get(partition) for partition in partitions):
        raise CommitConflict


def pending(dead_from: int | None, done: int | None) -> int | None:
    """Where dead letters begin that may be missing: done is the offset up to which the table of them is whole."""
    return None if dead_from is None or dead_from < (done or 0) else dead_from
