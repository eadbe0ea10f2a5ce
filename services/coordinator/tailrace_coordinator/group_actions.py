"""What group machines want done that takes long: one thread does it, and the group decides on the result.

Kafka's CoordinatorExecutor, with its tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

from structlog.typing import FilteringBoundLogger

from tailrace.errors import ApiError
from tailrace.metadata.image import MetadataImage
from tailrace.net.background import spawn
from tailrace.net.backoff import Backoff
from tailrace_coordinator.groups.consumer.expressions import ResolveExpressions
from tailrace_coordinator.groups.consumer.target import ComputeTargets
from tailrace_coordinator.groups.machine import GroupEffects, GroupMachine
from tailrace_coordinator.shards.partition_log import OwnedPartition
from tailrace_coordinator.topic_regex_resolver import matches

Take = Callable[[GroupMachine, int, int, Any], GroupEffects]  # (machine, now_ms, token, result)


class Shards(Protocol):
    """The shards of groups, and the image that they see (CoordinatorRuntime)."""

    @property
    def image(self) -> MetadataImage: ...
    def owns(self, owned: OwnedPartition) -> bool: ...
    async def ask_partition(self, partition: int, decide: Callable[[GroupMachine, int, int], GroupEffects]) -> Any: ...


class GroupActions:
    """Obeys the actions of all shards, one of a kind and group at a time."""

    def __init__(self, shards: Callable[[], Shards], backoff: Callable[[], Backoff], log: FilteringBoundLogger) -> None:
        self._shards = shards
        self._backoff = backoff
        self._log = log
        self._running: dict[Hashable, asyncio.Task[None]] = {}  # until the group has decided on the result
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = ThreadPoolExecutor(1, "groups")

    def act(self, owned: OwnedPartition, action: ResolveExpressions | ComputeTargets) -> None:
        """Begins, unless it is at it for this group: then the group asks again for what is missing in the result.

        What a shard is not told because it went is asked for again when it is loaded.
        """
        key = owned, type(action), action.group_id
        if key not in self._running:
            self._running[key] = spawn(self._run(key, owned, *self._task(action)), self._tasks)

    def _task(self, action: ResolveExpressions | ComputeTargets) -> tuple[Callable[[], Any], Take]:
        """What the thread is to do, and the decision about its result."""
        if isinstance(action, ComputeTargets):
            return action.compute, lambda machine, now_ms, token, targets: machine.take_targets(
                now_ms, token, action, targets
            )
        image = self._shards().image
        names, complain = tuple(image.topics), partial(self._complain, action.group_id)
        match = partial(matches, action.expressions, names, action.may_describe, complain)
        return match, lambda machine, now_ms, token, found: machine.take_expressions(
            now_ms, token, action.group_id, found, image.offset
        )

    async def _run(self, key: Hashable, owned: OwnedPartition, task: Callable[[], Any], take: Take) -> None:
        """Gives the result until it is taken, or until the shard is another's: the group waits for it."""

        def decide(machine: GroupMachine, now_ms: int, token: int) -> GroupEffects:
            self._release(key)  # before the commit: the group may ask for the next one from now on
            return take(machine, now_ms, token, result)

        backoff = self._backoff()
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._thread, task)
            while self._shards().owns(owned):
                try:
                    await self._shards().ask_partition(owned.partition, decide)
                except ApiError:  # too much waits for the log; or the shard is loaded, and begins again
                    await backoff.wait()
                else:
                    return
        finally:
            self._release(key)

    def _release(self, key: Hashable) -> None:
        if self._running.get(key) is asyncio.current_task():
            del self._running[key]

    def _complain(self, group_id: str, expression: str, why: str) -> None:
        self._log.warning("a regular expression of a group", group=group_id, expression=expression, why=why)

    async def close(self) -> None:
        """Breaks off what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)
