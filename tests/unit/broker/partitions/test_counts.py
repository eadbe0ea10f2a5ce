"""What the metrics count of the partitions of a broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support.broker import running
from support.waiting import turns_until
from tailrace.net.turns import turns

_LONG_REQUESTS = 40


async def test_a_scrape_counts_at_once_beside_many_long_requests(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        begun = 0

        async def long_request() -> None:
            nonlocal begun
            begun += 1
            async for _ in turns(range(1_000_000_000)):
                pass

        requests = [asyncio.create_task(long_request()) for _ in range(_LONG_REQUESTS)]
        await turns_until(lambda: begun == _LONG_REQUESTS)
        count = len(list(node.broker.topics.partitions()))
        for name in ("partitions", "leaders"):
            assert node.environment.registry.get_sample_value(f"tailrace_{name}") == count > 1
        for request in requests:
            request.cancel()
        await asyncio.wait(requests)
