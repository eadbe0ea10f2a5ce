"""Many rows at once, by the driver, past SQLAlchemy's work per row.

A broker that is fenced changes thousands of partitions, and nobody hears of it before they are written.
"""

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite


def insert(
    connection: sa.Connection,
    table: sa.Table,
    columns: tuple[str, ...],
    rows: Sequence[tuple[object, ...]],
    *,
    replace: bool = False,
) -> None:
    """Writes rows of these columns, the key among them, which must be new unless replaced."""
    text, order = _statement(table, columns, connection.dialect, replace)
    values: Sequence[Any] = rows
    if not order:
        values = [dict(zip(columns, row, strict=True)) for row in rows]
    elif order != columns:
        pick = itemgetter(*(columns.index(name) for name in order))
        values = [pick(row) for row in rows]
    connection.exec_driver_sql(text, values)


@lru_cache(maxsize=64)
def _statement(
    table: sa.Table, columns: tuple[str, ...], dialect: sa.Dialect, replace: bool
) -> tuple[str, tuple[str, ...]]:
    """Returns the statement and the columns in the order of its parameters, none where they have names."""
    statement: Any = (sqlite if dialect.name == "sqlite" else postgresql).insert(table)
    if replace:
        keys = [column.name for column in table.primary_key]
        others = {name: statement.excluded[name] for name in columns if name not in keys}
        statement = statement.on_conflict_do_update(index_elements=keys, set_=others)
    compiled = statement.compile(dialect=dialect, column_keys=list(columns))
    return str(compiled), tuple(compiled.positiontup or ())
