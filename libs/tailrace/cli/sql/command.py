"""`tailrace sql`: a query of DuckDB over a bounded window of each topic that it names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, counted, say
from tailrace.cli.daily.nodes import Nodes, nodes
from tailrace.cli.daily.output import is_json, show
from tailrace.cli.daily.refusals import RefusedError
from tailrace.frames.extra import MissingExtraError, check_installed
from tailrace.frames.period import timestamp_of
from tailrace.reading.start import EARLIEST, Start

if TYPE_CHECKING:
    import duckdb
    import pyarrow

    from tailrace.reading.window import FoundRecord

_LIMIT: Final = 100_000
_ROWS_MAX: Final = 10_000


def sql(
    query: Annotated[
        str, typer.Argument(help="over topics as tables: partition, offset, timestamp, key, value, headers")
    ],
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="records from 90s, 1h, 7d ago on, or from a time")
    ] = None,
    last: Annotated[int | None, typer.Option("--last", min=0, help="the last so many of each partition")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="records of each topic at most")] = _LIMIT,
    as_bytes: Annotated[bool, typer.Option("--bytes", help="keys and values as bytes, and not as text")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Print what a query says about records; stderr says which records of each topic it has seen.

    It needs the extra tailrace[frames].
    """
    if since is not None and last is not None:
        raise typer.BadParameter("--since or --last")
    try:
        check_installed("duckdb", "pyarrow", "pytz")
    except MissingExtraError as missing:
        say(str(missing), err=True)
        raise typer.Exit(1) from None
    import duckdb

    database = duckdb.connect(config={"python_enable_replacements": "false"})  # a topic is no variable of this program
    try:
        topics = sorted(database.get_table_names(query))
        with nodes(bootstrap, lasting=True) as cluster:
            start = _start(since, last, cluster.clock.wall_ms())
            for topic in topics:
                database.register(topic, _window(cluster, topic, start, limit, text=not as_bytes))
        found = database.sql(query)
        if found is not None:  # else a statement without rows, as COPY
            _print(found)
    except duckdb.Error as wrong:
        say(str(wrong), err=True)
        raise typer.Exit(1) from None


def _start(since: str | None, last: int | None, now_ms: int) -> Start:
    if since is None:
        return EARLIEST if last is None else Start(back=last)
    try:
        return Start(timestamp=timestamp_of(since, now_ms))
    except ValueError as wrong:
        raise typer.BadParameter(f"--since {wrong}") from None


def _window(cluster: Nodes, topic: str, start: Start, limit: int, *, text: bool) -> pyarrow.Table:
    """The table of a topic. Raises RefusedError for an unknown topic, or a value that is no text."""
    from tailrace.frames.columns import table_of
    from tailrace.frames.topic import TopicWindow, WindowPages

    cluster.check_leaders(topic)
    pages = WindowPages(TopicWindow(topic, start, limit=limit), cluster.exchange, cluster.deadline.patience_ms)

    def read() -> Sequence[FoundRecord]:
        cluster.deadline.check("records")
        return cluster.run(pages.read())

    try:
        table = table_of(iter(read, []), text=text)
    except ValueError as wrong:
        raise RefusedError(f"{topic}: {str(wrong).replace('text=False', '--bytes')}") from None
    finally:
        cluster.run(pages.close())
    bound = "one query reads 2 GiB of a topic" if pages.is_large else f"--limit {limit} leaves them out"
    more = "all of the window" if pages.complete else f"there are more: {bound}"
    say(f"{topic}: {counted(table.num_rows, 'record')}, {more}", err=True)
    return table


def _print(found: duckdb.DuckDBPyRelation) -> None:
    names = unique(found.columns)
    rows = found.limit(_ROWS_MAX + 1).fetchall()
    shown = [dict(zip(names, map(plain, row), strict=True)) for row in rows[:_ROWS_MAX]]
    show(shown, {name: name for name in names})
    if len(rows) > _ROWS_MAX:
        say(f"the first {_ROWS_MAX} rows; COPY (…) TO 'file.parquet' writes all", err=True)


def unique(columns: Iterable[str]) -> list[str]:
    """The names of columns; a repeated one has a number."""
    names: dict[str, None] = {}
    for column in columns:
        name, number = column, 0
        while name in names:
            number += 1
            name = f"{column}_{number}"
        names[name] = None
    return list(names)


def plain(value: object) -> object:
    """A value that JSON has."""
    if isinstance(value, float) and not math.isfinite(value) and is_json():
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return str(value)
