"""One reading of a topic for one request: from the parameters to a window reader."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

from tailrace.reading.cursor import Cursor
from tailrace.reading.positions import parse, parse_partitions
from tailrace.reading.reader import Gap, TopicReader
from tailrace.reading.record_filter import OF_A_SERVICE, RecordFilter
from tailrace.reading.start import EARLIEST, LATEST, LATEST_TIMESTAMP, Start, parse_start, parse_time
from tailrace.reading.window import WindowReader
from tailrace_gateway.rest.errors import plain, unknown_topic
from tailrace_gateway.rest.reading.models import PARTITIONS_MAX, RecordsQuery
from tailrace_gateway.rest.reading.nodes import ImageNodes
from tailrace_gateway.rest.reading.resources import Encodings
from tailrace_gateway.rest.scope import ClusterScope

_PATIENCE_MS: Final = 5_000
_FETCH_BYTES: Final = 1 << 20


class ReadingWish(NamedTuple):
    """The parameters of a reading, which make sense together."""

    topic: str
    start: Start
    until: int | None
    partitions: list[int]
    positions: dict[int, int]
    committed: bool
    filter: str | None
    encodings: Encodings


class Reading(NamedTuple):
    """A window reader, its cursors as they were at the start, and the gaps that it meets."""

    window: WindowReader
    starts: dict[int, int]
    ends: dict[int, int | None]
    gaps: list[Gap]
    matches: RecordFilter | None


def wish_of(
    scope: ClusterScope, topic: str, partition: int | None, query: RecordsQuery, *, resumed: str | None, is_stream: bool
) -> ReadingWish:
    """resumed: the position of a stream that broke off. Raises RestError."""
    count = len(scope.topic(topic).partitions)
    try:
        positions = parse(at, PARTITIONS_MAX) if (at := resumed or query.cursor) else {}
        if positions and resumed is None and query.from_ is not None:
            raise ValueError("cursor and from: one place to begin")
        start = parse_start(query.from_) if query.from_ is not None else LATEST if is_stream else EARLIEST
        wanted = _partitions(partition, query.partitions, positions, count)
        if is_stream and query.until is not None:
            raise ValueError("until: a stream has no end")
        until = None if is_stream else parse_time(query.until) if query.until is not None else LATEST_TIMESTAMP
    except ValueError as wrong:
        raise plain(HTTPStatus.BAD_REQUEST, f"Bad Request: {wrong}") from None
    if any(index >= count for index in wanted):
        raise unknown_topic()
    encodings = Encodings(query.key_encoding, query.value_encoding, query.header_encoding)
    return ReadingWish(
        topic, start, until, wanted, positions, query.isolation == "read_committed", query.filter, encodings
    )


def _partitions(partition: int | None, listed: str | None, positions: dict[int, int], count: int) -> list[int]:
    """Raises ValueError."""
    if partition is not None and (listed is not None or positions.keys() - {partition}):
        raise ValueError("partitions, cursor: the path names the partition")
    if positions and listed is not None:
        raise ValueError("partitions: the cursor names them")
    if positions:
        return sorted(positions)
    if partition is not None:
        return [partition]
    if listed is not None:
        return parse_partitions(listed, PARTITIONS_MAX)
    if count > PARTITIONS_MAX:
        last = PARTITIONS_MAX - 1
        raise ValueError(f"partitions: the topic has {count}, of which one reading has {PARTITIONS_MAX}, as 0-{last}")
    return list(range(count))


@asynccontextmanager
async def open_reading(scope: ClusterScope, wish: ReadingWish) -> AsyncIterator[Reading]:
    """Raises RestError for an offset outside of the log, and what the reader raises."""
    gaps: list[Gap] = []
    matches = await scope.backend.run_reading(partial(_filter_of, wish))  # its library is imported by the first one
    connections = scope.backend.connect_for(wish.topic)
    reader = TopicReader(
        ImageNodes(scope.backend, connections, scope.topic(wish.topic).topic_id),
        scope.clock,
        wish.topic,
        patience_ms=_PATIENCE_MS,
        committed=wish.committed,
        fetch_bytes=_FETCH_BYTES,
        on_gap=gaps.append,
    )
    try:
        cursors = await _cursors(reader, wish)
        starts = {cursor.partition: cursor.offset for cursor in cursors}
        ends = {cursor.partition: cursor.end for cursor in cursors}
        window = WindowReader(reader, cursors, scope.clock, scope.backend.run_reading, matches)
        yield Reading(window, starts, ends, gaps, matches)
    finally:
        await reader.close()
        await connections.close()


def _filter_of(wish: ReadingWish) -> RecordFilter | None:
    """Raises RestError that points at the place."""
    if wish.filter is None:
        return None
    try:
        return RecordFilter(wish.filter, OF_A_SERVICE, wish.encodings.key, wish.encodings.value)
    except ValueError as wrong:
        raise plain(HTTPStatus.BAD_REQUEST, f"Bad Request: {wrong}") from None


async def _cursors(reader: TopicReader, wish: ReadingWish) -> Sequence[Cursor]:
    start = LATEST if wish.positions else wish.start
    try:
        return await reader.find(start, until=wish.until, partitions=wish.partitions, positions=wish.positions)
    except ValueError as wrong:
        raise plain(HTTPStatus.BAD_REQUEST, f"Bad Request: {wrong}") from None
