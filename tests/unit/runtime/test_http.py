"""Health and metrics over HTTP: what becomes of a page that is not there in time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import uvloop
from prometheus_client import CollectorRegistry

from tailrace.clock import ManualClock
from tailrace.runtime.http import Pages, serve_pages


def test_a_page_that_comes_too_late_ends_its_connection_and_is_no_error() -> None:
    problems: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # which refuses a write to what is closed
        runner.get_loop().set_exception_handler(lambda _, problem: problems.append(problem))
        runner.run(_ask_in_vain())
    assert problems == []


async def _ask_in_vain() -> None:
    counting, counted = asyncio.Event(), asyncio.Event()

    async def count() -> None:
        counting.set()
        await counted.wait()

    clock = ManualClock()
    server = await serve_pages(Pages(CollectorRegistry(), lambda: True, dict, count), "127.0.0.1", 0, clock)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    await counting.wait()
    (answering,) = asyncio.all_tasks() - {asyncio.current_task()}
    clock.advance(5_000)
    with suppress(ConnectionError):
        assert await reader.read() == b""
    counted.set()
    await asyncio.wait([answering])
    writer.close()
    server.close()
