"""A topic's tables in Delta Lake: Parquet files and a log, in a local folder or an S3 bucket.

Delta's transaction identifiers hold the offsets. Of two commits onto one version with the same identifier Delta refuses
the second one. It does not compare a commit with the version that it goes onto, and that one may have commits of other
writers: a commit without a common identifier, or a compaction, moves a writer past them. So a writer keeps the offsets
that it loaded or committed last, and compares them when its version has moved. There is no lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final
from uuid import UUID

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import PrimitiveType

from tailrace.kafka.ids import format_uuid
from tailrace.records.record import Record
from tailrace.records.timestamps import has_date
from tailrace.tables.batch import DeadLetter, Plan
from tailrace.tables.columns import BINARY, BOOLEAN, DATE, DOUBLE, LONG, STRING, TIMESTAMP, Schema
from tailrace.tables.fields.field import RESERVED
from tailrace.tables.store import CommitConflict, Loaded, Position, StoreFailure, pending

_HEADERS: Final = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
_POSITION: Final = pa.schema(
    [
        ("_kafka_topic_id", pa.string()),
        ("_kafka_partition", pa.int32()),
        ("_kafka_offset", pa.int64()),
        ("_kafka_timestamp", pa.timestamp("us", tz="UTC")),
        ("_kafka_key", pa.binary()),
        ("_kafka_headers", _HEADERS),
    ]
)
_DEAD: Final = _POSITION.append(pa.field("_kafka_value", pa.binary())).append(pa.field("_kafka_reason", pa.string()))
_ARROW: Final = {
    BOOLEAN: pa.bool_(),
    LONG: pa.int64(),
    DOUBLE: pa.float64(),
    STRING: pa.string(),
    BINARY: pa.binary(),
    TIMESTAMP: pa.timestamp("us", tz="UTC"),
    DATE: pa.date32(),
}


class DeltaStore:
    """A writer of the tables of one topic id below a location."""

    def __init__(self, location: str, topic: str, topic_id: UUID) -> None:
        self._rows_uri = f"{location}/tables/{topic}"
        self._dead_uri = f"{location}/dead-letters/{topic}"
        self._topic_id = format_uuid(topic_id)
        self._rows: _Table | None = None
        self._dead: _Table | None = None

    def load(self, partitions: Iterable[int]) -> Loaded:
        with _failures():
            rows, dead = _open(self._rows_uri, _POSITION), _open(self._dead_uri, _DEAD)
            names = {partition: self._name(partition) for partition in partitions}
            self._rows, self._dead = _Table(rows, names.values()), _Table(dead, names.values())
            found = {}
            for partition, name in names.items():
                if (offset := self._rows.offsets[name]) is not None:
                    dead_from = rows.transaction_version(_dead(name))
                    found[partition] = Position(offset, pending(dead_from, self._dead.offsets[name]))
            return Loaded(_fields_of(rows), found)

    def append(self, plan: Plan) -> None:
        assert self._rows is not None
        data = self._positions((row.partition, row.record) for row in plan.rows)
        fields = [row.fields for row in plan.rows]
        for column in dict.fromkeys(name for one in fields for name in one):
            type_ = plan.types[column]
            data[column] = pa.array(
                [
                    float(value) if type_ == DOUBLE and isinstance(value, int) else value
                    for value in (one.get(column) for one in fields)
                ],
                _ARROW[type_],
            )
        dead_from = {_dead(self._name(partition)): offset for partition, offset in plan.dead_from.items()}
        self._rows.commit(pa.table(data), self._named(plan.offsets), dead_from)

    def append_letters(self, letters: Sequence[DeadLetter], offsets: Mapping[int, int]) -> None:
        assert self._dead is not None
        data = self._positions((letter.partition, letter.record) for letter in letters)
        data["_kafka_value"] = pa.array([letter.record.value for letter in letters], pa.binary())
        data["_kafka_reason"] = pa.array([letter.reason for letter in letters], pa.string())
        self._dead.commit(pa.table(data), self._named(offsets), {})

    def offsets_from(self, partition: int, offset: int) -> set[int]:
        assert self._rows is not None
        with _failures():
            found = self._rows.delta.to_pyarrow_table(
                columns=["_kafka_offset"],
                filters=[
                    ("_kafka_topic_id", "=", self._topic_id),
                    ("_kafka_partition", "=", partition),
                    ("_kafka_offset", ">=", offset),
                ],
            )
            return set(found["_kafka_offset"].to_pylist())

    def maintain(self) -> None:
        for table in (self._rows, self._dead):
            assert table is not None
            with _failures():
                table.delta.optimize.compact()
                table.delta.vacuum(dry_run=False)

    def _name(self, partition: int) -> str:
        return f"tailrace/{self._topic_id}/{partition}"

    def _named(self, offsets: Mapping[int, int]) -> dict[str, int]:
        return {self._name(partition): offset for partition, offset in offsets.items()}

    def _positions(self, records: Iterable[tuple[int, Record]]) -> dict[str, pa.Array]:
        """The columns that say where each record stands."""
        rows = list(records)
        times = [one.timestamp * 1000 if has_date(one.timestamp) else None for _, one in rows]
        headers = [[{"name": name, "value": value} for name, value in one.headers] for _, one in rows]
        columns = (
            [self._topic_id] * len(rows),
            [partition for partition, _ in rows],
            [one.offset for _, one in rows],
            times,
            [one.key for _, one in rows],
            headers,
        )
        return {field.name: pa.array(column, field.type) for field, column in zip(_POSITION, columns, strict=True)}


class _Table:
    """A table at one version, and the offsets by name that its writer loaded or committed last."""

    def __init__(self, delta: DeltaTable, names: Iterable[str]) -> None:
        self.delta = delta
        self.offsets: dict[str, int | None] = {name: delta.transaction_version(name) for name in names}
        self._version = delta.version()  # up to this one no other writer has changed the offsets

    def commit(self, data: pa.Table, offsets: Mapping[str, int], more: Mapping[str, int]) -> None:
        """more: identifiers that are set, and not compared."""
        marks = [Transaction(name, offset) for name, offset in (*offsets.items(), *more.items())]
        properties = CommitProperties(app_transactions=marks)
        with _failures():
            self._compare(offsets)
            before = self.delta.version()
            write_deltalake(self.delta, data, mode="append", schema_mode="merge", commit_properties=properties)
            self.offsets.update(offsets)
            if self._version == before and self.delta.version() == before + 1:
                self._version += 1

    def _compare(self, names: Iterable[str]) -> None:
        """Each name costs a read of the log, so only a version that holds commits of others is looked at."""
        if self.delta.version() == self._version:
            return
        moved = {name for name, offset in self.offsets.items() if self.delta.transaction_version(name) != offset}
        if overtaken := moved.intersection(names):
            raise CommitConflict(f"commits of others in {', '.join(sorted(overtaken))}")
        if not moved:
            self._version = self.delta.version()


def _dead(name: str) -> str:
    return f"{name}/dead-letters"


def _open(uri: str, schema: pa.Schema) -> DeltaTable:
    """The table's newest version; it is made where there is none."""
    try:
        return DeltaTable(uri)
    except TableNotFoundError:
        pass
    try:
        return DeltaTable.create(uri, schema)
    except DeltaError:
        return DeltaTable(uri)  # another writer has made it meanwhile; else this fails with the reason


def _fields_of(table: DeltaTable) -> Schema:
    """The columns of fields. A type that no field has is in no row of ours: its fields are dead letters."""
    return {
        field.name: field.type.type if isinstance(field.type, PrimitiveType) else "nested"
        for field in table.schema().fields
        if not field.name.startswith(RESERVED)
    }


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise CommitConflict(str(error)) from None
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise StoreFailure(str(error)) from error
