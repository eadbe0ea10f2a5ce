"""Housekeeping of very many partitions: others have their turn in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from pathlib import Path

import pytest
import structlog

from support.broker import Running, running
from support.log_dirs import metadata
from support.steps import longest_stretch
from tailrace.net import pieces
from tailrace.runtime.clock import SystemClock
from tailrace_broker.background.housekeeping import Housekeeping

FEW, MANY = 500, 2_000
WORK: dict[str, Callable[[Housekeeping], Awaitable[None]]] = {
    "checkpoint": Housekeeping.checkpoint,
    "flush": Housekeeping.flush,
    "retain": Housekeeping.retain,
}


def use_all(node: Running) -> None:
    """Logs that were opened just now are looked at by the next round."""
    for partition in node.broker.topics.partitions():
        assert not partition.log.log_end_offset
        node.broker.node.changed.add(partition)


@pytest.mark.parametrize("work", WORK)
async def test_the_longest_step_of_a_round_does_not_grow_with_the_partitions(
    work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "thread_time_ms", lambda: 0.0)  # pieces end by the number of their rows

    async def longest(count: int) -> int:
        async with running(tmp_path / str(count), metadata(count)) as node:
            keeper, found = Housekeeping(node.broker, SystemClock(), structlog.get_logger()), inf
            for _ in range(3):  # the first remembers much, and threads of the broker run meanwhile
                use_all(node)
                found = min(found, await longest_stretch(WORK[work](keeper)))
        return int(found)

    assert await longest(MANY) < 2 * await longest(FEW)
