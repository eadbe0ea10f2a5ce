"""Which log dirs are offline or short of space: DescribeLogDirs v4 (KIP-827), judged as a broker judges its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from tailrace.errors import ApiError
from tailrace.log.directory.disk_pressure import Level, judge
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


class Troubled(NamedTuple):
    """The log dirs whose producers are slowed or refused, those whose disk failed, and brokers that do not answer."""

    pressed: list[Pressed]
    offline: list[tuple[int, str]]  # (broker, path)
    silent: list[int]


async def troubled(backend: AdminBackend, nodes: Iterable[int], timeout_ms: int = SPARE_TIMEOUT_MS) -> Troubled:
    """What is wrong with log dirs; of a broker that does not answer nothing is known."""
    found = await asyncio.gather(*(_of(backend, node, timeout_ms) for node in nodes))
    return Troubled(
        [row for one in found for row in one.pressed],
        [row for one in found for row in one.offline],
        [node for one in found for node in one.silent],
    )


async def _of(backend: AdminBackend, node: int, timeout_ms: int) -> Troubled:
    try:
        asked = DescribeLogDirsRequest(topics=[])
        answer = await backend.ask_broker(node, asked, _LOG_DIRS_VERSION, timeout_ms)
    except (ApiError, OSError):
        return Troubled([], [], [node])
    rows = []
    for result in answer.results:
        level = level_of(backend, result)
        if level not in (None, Level.NONE):
            rows.append(Pressed(node, result.log_dir, level, result.usable_bytes, result.total_bytes))
    return Troubled(rows, [(node, result.log_dir) for result in answer.results if result.error_code], [])


def level_of(backend: AdminBackend, result: Any) -> Level | None:
    """How hard a log dir of a DescribeLogDirs answer presses its producers; an offline one has no sizes: None."""
    if result.error_code or result.total_bytes < 0:
        return None
    return judge(result.usable_bytes, backend.log_dir_marks(result.total_bytes)).level
