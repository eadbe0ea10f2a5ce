"""A page of records: the answer of GET …/records."""

from __future__ import annotations

import json
from functools import partial
from typing import Final
from urllib.parse import urlencode

from tailrace.reading.positions import written
from tailrace.reading.window import Bounds, FoundRecord
from tailrace_gateway.rest.reading.models import RecordsQuery
from tailrace_gateway.rest.reading.reading import Reading, ReadingWish, open_reading
from tailrace_gateway.rest.reading.resources import gap_of, record_of
from tailrace_gateway.rest.scope import ClusterScope, Part

PAGE_MS: Final = 20_000  # less than a request may take, so that the next page is named


async def page(scope: ClusterScope, here: tuple[Part, ...], wish: ReadingWish, query: RecordsQuery) -> bytes:
    """The page as JSON."""
    bounds = Bounds(query.limit, query.max_bytes, query.max_scanned_records, query.max_scanned_bytes, PAGE_MS)
    async with open_reading(scope, wish) as reading:
        found = await reading.window.read(bounds, query.wait_ms)
    at_end = all(reading.window.positions[index] >= (end or 0) for index, end in reading.ends.items())
    url = scope.url(*here)
    return await scope.backend.run_reading(partial(_page, url, at_end, wish, query, reading, found))


def filter_state(reading: Reading) -> dict[str, object]:
    """What a filter could not judge."""
    matches = reading.matches
    return {
        "filter_failures": None if matches is None else matches.failures,
        "first_filter_failure": None if matches is None else matches.first_failure,
    }


def _page(
    url: str, at_end: bool, wish: ReadingWish, query: RecordsQuery, reading: Reading, found: list[FoundRecord]
) -> bytes:
    positions = reading.window.positions
    cursor = written(positions)
    given = query.model_dump(mode="json", by_alias=True, exclude_unset=True)
    going_on = {**{name: given[name] for name in given if name not in ("from", "partitions")}, "cursor": cursor}
    answer = {
        "kind": "TailraceRecordList",
        "metadata": {
            "self": f"{url}?{urlencode(given)}" if given else url,
            "next": None if at_end else f"{url}?{urlencode(going_on)}",
        },
        "data": [record_of(wish.topic, one, wish.encodings) for one in found],
        "cursor": cursor,
        "scanned_records": reading.window.scanned_records,
        "scanned_bytes": reading.window.scanned_bytes,
        **filter_state(reading),
        "partitions": [
            {
                "partition_id": index,
                "start_offset": start,
                "next_offset": positions[index],
                "end_offset": reading.ends[index],
            }
            for index, start in reading.starts.items()
        ],
        "gaps": [gap_of(gap) for gap in reading.gaps],
    }
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
