"""The records that the next commit takes, and the rows, dead letters and offsets that it makes of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tailrace.records.record import Record
from tailrace.tables.columns import Columns, Schema
from tailrace.tables.fields.field import Decode, Fields, Undecodable

MOST_RECORDS: Final = 50_000
MOST_BYTES: Final = 16 * 1024 * 1024
_RECORD_BYTES: Final = 100  # of a record besides its key and value


class TableRow(NamedTuple):
    """A record with the fields of its value, by column."""

    partition: int
    record: Record
    fields: Fields


class DeadLetter(NamedTuple):
    """A record that makes no row."""

    partition: int
    record: Record
    reason: str


class Plan(NamedTuple):
    """What a commit holds: of each partition the offset behind its last record, and of its first dead letter."""

    rows: list[TableRow]
    letters: list[DeadLetter]
    types: Schema
    offsets: dict[int, int]
    dead_from: dict[int, int]


class Batch:
    """Records of a topic that wait for a commit, within a bound of records and bytes."""

    def __init__(self) -> None:
        self._records: list[tuple[int, Record]] = []
        self._bytes = 0
        self.offsets: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._records)

    @property
    def is_full(self) -> bool:
        return len(self._records) >= MOST_RECORDS or self._bytes >= MOST_BYTES

    def add(self, partition: int, record: Record) -> None:
        self._records.append((partition, record))
        self._bytes += _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
        self.offsets[partition] = record.offset + 1

    def plan(self, schema: Schema, decode: Decode) -> Plan:
        """The commit onto a table of these columns. Raises SchemaFailure."""
        columns = Columns(schema)
        rows, letters = split(self._records, columns, decode)
        dead_from: dict[int, int] = {}
        for letter in letters:
            dead_from.setdefault(letter.partition, letter.record.offset)
        return Plan(rows, letters, columns.types, self.offsets, dead_from)


def split(
    records: Iterable[tuple[int, Record]], columns: Columns, decode: Decode
) -> tuple[list[TableRow], list[DeadLetter]]:
    """The rows, whose columns are added, and what makes none. Raises SchemaFailure."""
    rows: list[TableRow] = []
    letters: list[DeadLetter] = []
    for partition, record in records:
        try:
            rows.append(TableRow(partition, record, columns.fit(decode(record.value))))
        except Undecodable as wrong:
            reason = str(wrong).encode(errors="replace").decode()  # a name in it may be no UTF-8
            letters.append(DeadLetter(partition, record, reason))
    return rows, letters
