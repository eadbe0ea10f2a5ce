"""How much space brokers have left: DescribeLogDirs v4 (KIP-827), judged as a broker judges its own log dirs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from tailrace.errors import ApiError
from tailrace.log.pressure import Level, judge
from tailrace.wire.messages import DescribeLogDirsRequest
from tailrace_gateway.rest.backend import SPARE_TIMEOUT_MS, AdminBackend

_LOG_DIRS_VERSION = 4


class Pressed(NamedTuple):
    """A log dir that has too little space; bytes."""

    broker_id: int
    log_dir: str
    level: Level
    usable_bytes: int
    total_bytes: int


async def pressed(backend: AdminBackend, nodes: Iterable[int]) -> list[Pressed]:
    """The log dirs whose producers are slowed or refused; of a broker that does not answer nothing is known."""
    found = await asyncio.gather(*(_of(backend, node) for node in nodes))
    return [row for rows in found for row in rows]


async def _of(backend: AdminBackend, node: int) -> list[Pressed]:
    try:
        asked = DescribeLogDirsRequest(topics=[])
        answer = await backend.ask_broker(node, asked, _LOG_DIRS_VERSION, SPARE_TIMEOUT_MS)
    except (ApiError, OSError):
        return []
    rows = []
    for result in answer.results:
        level = level_of(backend, result)
        if level not in (None, Level.NONE):
            rows.append(Pressed(node, result.log_dir, level, result.usable_bytes, result.total_bytes))
    return rows


def level_of(backend: AdminBackend, result: Any) -> Level | None:
    """How hard a log dir of a DescribeLogDirs answer presses its producers; an offline one has no sizes: None."""
    if result.error_code or result.total_bytes < 0:
        return None
    return judge(result.usable_bytes, backend.log_dir_marks(result.total_bytes)).level
