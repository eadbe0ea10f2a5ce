"""One decision of a shard at a time: while one of many steps is under way, later ones wait in the order they came.

Between the steps others on the event loop have their turn: other shards, too. Most decisions are a single step, and are
over when `add` returns.
"""

from __future__ import annotations

import asyncio
from collections import deque

from tailrace.net.turns import in_turns
from tailrace.steps import Steps


class DecisionQueue:
    """Of one loading of a shard. A decision tells its asker, or the shard, how it ended: it raises nothing."""

    def __init__(self) -> None:
        self._waiting: deque[Steps[None]] = deque()
        self._task: asyncio.Task[None] | None = None
        self.busy = False  # whether a decision is under way

    def add(self, decision: Steps[None]) -> None:
        """Begins it, unless another is under way: then after that, and after all that came before."""
        if self.busy:
            self._waiting.append(decision)
            return
        for _ in decision:
            self.busy = True
            self._task = asyncio.get_running_loop().create_task(self._run(decision))
            return

    def close(self) -> None:
        """Ends all of them where they are."""
        if self._task is not None:
            self._task.cancel()
        self._waiting.clear()

    async def _run(self, decision: Steps[None]) -> None:
        await in_turns(decision)
        while self._waiting:
            await in_turns(self._waiting.popleft())
        self.busy = False
