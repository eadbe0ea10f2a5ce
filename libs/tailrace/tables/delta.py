"""A topic's tables in Delta Lake: Parquet files and a log, in a local folder or an S3 bucket.

Delta's transaction identifiers hold the offsets: of two commits onto one version with the same identifier the second
one is refused, whatever else was committed meanwhile. So a commit needs no lock and no other bookkeeping.
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
from tailrace.tables.batch import DeadLetter, Plan
from tailrace.tables.columns import BOOLEAN, DOUBLE, LONG, STRING, Schema
from tailrace.tables.json_fields import RESERVED
from tailrace.tables.store import CommitConflict, Loaded, Position, StoreFailure, pending

_YEAR_10000_MS: Final = 253_402_300_800_000
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
_ARROW: Final = {BOOLEAN: pa.bool_(), LONG: pa.int64(), DOUBLE: pa.float64(), STRING: pa.string()}


class DeltaStore:
    """A writer of the tables of one topic id below a location."""

    def __init__(self, location: str, topic: str, topic_id: UUID) -> None:
        self._rows_uri = f"{location}/tables/{topic}"
        self._dead_uri = f"{location}/dead-letters/{topic}"
        self._topic_id = format_uuid(topic_id)
        self._rows: DeltaTable | None = None
        self._dead: DeltaTable | None = None

    def load(self, partitions: Iterable[int]) -> Loaded:
        with _failures():
            self._rows, self._dead = _open(self._rows_uri, _POSITION), _open(self._dead_uri, _DEAD)
            found = {}
            for partition in partitions:
                name = self._name(partition)
                if (offset := self._rows.transaction_version(name)) is not None:
                    dead_from = self._rows.transaction_version(_dead(name))
                    found[partition] = Position(offset, pending(dead_from, self._dead.transaction_version(name)))
            return Loaded(_fields_of(self._rows), found)

    def append(self, plan: Plan) -> None:
        marks = [Transaction(self._name(partition), offset) for partition, offset in plan.offsets.items()]
        marks += [Transaction(_dead(self._name(partition)), offset) for partition, offset in plan.dead_from.items()]
        data = self._positions((row.partition, row.record) for row in plan.rows)
        fields = [row.fields for row in plan.rows]
        for column in dict.fromkeys(name for one in fields for name in one):
            type_ = plan.types[column]
            data[column] = pa.array(
                [
                    float(value) if type_ == DOUBLE and value is not None else value
                    for value in (one.get(column) for one in fields)
                ],
                _ARROW[type_],
            )
        self._rows = _commit(self._rows, pa.table(data), marks)

    def append_letters(self, letters: Sequence[DeadLetter], offsets: Mapping[int, int]) -> None:
        data = self._positions((letter.partition, letter.record) for letter in letters)
        data["_kafka_value"] = pa.array([letter.record.value for letter in letters], pa.binary())
        data["_kafka_reason"] = pa.array([letter.reason for letter in letters], pa.string())
        marks = [Transaction(self._name(partition), offset) for partition, offset in offsets.items()]
        self._dead = _commit(self._dead, pa.table(data), marks)

    def offsets_from(self, partition: int, offset: int) -> set[int]:
        assert self._rows is not None
        with _failures():
            found = self._rows.to_pyarrow_table(
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
                table.optimize.compact()
                table.vacuum(dry_run=False)

    def _name(self, partition: int) -> str:
        return f"tailrace/{self._topic_id}/{partition}"

    def _positions(self, records: Iterable[tuple[int, Record]]) -> dict[str, pa.Array]:
        """The columns that say where each record stands."""
        rows = list(records)
        times = [one.timestamp * 1000 if 0 <= one.timestamp < _YEAR_10000_MS else None for _, one in rows]
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


def _commit(table: DeltaTable | None, data: pa.Table, marks: list[Transaction]) -> DeltaTable:
    assert table is not None
    with _failures():
        write_deltalake(
            table, data, mode="append", schema_mode="merge", commit_properties=CommitProperties(app_transactions=marks)
        )
    return table


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise CommitConflict(str(error)) from None
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise StoreFailure(str(error)) from error
