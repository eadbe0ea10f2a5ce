"""Records as a table of Arrow, and what others make of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow

from tailrace.reading.window import FoundRecord
from tailrace.records.timestamps import has_date

if TYPE_CHECKING:
    import duckdb
    import polars


def schema(*, text: bool) -> pyarrow.Schema:
    """The columns; keys and values as strings, or as bytes."""
    data = pyarrow.string() if text else pyarrow.binary()
    header = pyarrow.struct([("name", pyarrow.string()), ("value", pyarrow.binary())])
    return pyarrow.schema(
        [
            ("partition", pyarrow.int32()),
            ("offset", pyarrow.int64()),
            ("timestamp", pyarrow.timestamp("ms", "UTC")),
            ("key", data),
            ("value", data),
            ("headers", pyarrow.list_(header)),
        ]
    )


def table_of(pages: Iterable[Sequence[FoundRecord]], *, text: bool) -> pyarrow.Table:
    """A table with a batch for each page. Raises ValueError for a key or a value that is no text."""
    columns = schema(text=text)
    return pyarrow.Table.from_batches([_batch(page, columns, text=text) for page in pages], columns)


def _batch(page: Sequence[FoundRecord], columns: pyarrow.Schema, *, text: bool) -> pyarrow.RecordBatch:
    records = [record for _, record in page]
    values: list[Sequence[object]] = [
        [partition for partition, _ in page],
        [record.offset for record in records],
        [record.timestamp if has_date(record.timestamp) else None for record in records],
        [record.key for record in records],
        [record.value for record in records],
        [[{"name": name, "value": value} for name, value in record.headers] for record in records],
    ]
    arrays = [pyarrow.array(column, _stored(field.type)) for column, field in zip(values, columns, strict=True)]
    if text:
        arrays = [
            _as_text(array, field.name, page) if field.type == pyarrow.string() else array
            for array, field in zip(arrays, columns, strict=True)
        ]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=columns)


def _stored(kind: pyarrow.DataType) -> pyarrow.DataType:
    return pyarrow.binary() if kind == pyarrow.string() else kind


def _as_text(array: pyarrow.Array, name: str, page: Sequence[FoundRecord]) -> pyarrow.Array:
    """Without a copy: the bytes are looked at, and stay."""
    try:
        return array.cast(pyarrow.string())
    except pyarrow.ArrowInvalid:
        partition, record = next(found for found in page if not _is_text(getattr(found.record, name)))
        raise ValueError(
            f"the {name} at partition {partition}, offset {record.offset} is not UTF-8; text=False gives bytes"
        ) from None


def _is_text(data: bytes | None) -> bool:
    try:
        return data is None or data.decode() is not None
    except UnicodeDecodeError:
        return False


def polars_of(table: pyarrow.Table) -> polars.DataFrame:
    """A data frame of Polars."""
    from polars import from_arrow

    return from_arrow(table)


def relation_of(table: pyarrow.Table) -> duckdb.DuckDBPyRelation:
    """A relation in DuckDB's default database, which `duckdb.sql` queries, too."""
    from duckdb import from_arrow

    return from_arrow(table)
