"""Matches the regular expressions of subscriptions against the names of topics, in a thread, and tells the group.

Kafka's TopicRegexResolver. RE2 takes time that grows with the text alone, whatever the expression.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any, Final

import re2
from structlog.typing import FilteringBoundLogger

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace_coordinator.groups.consumer.expressions import MayDescribe, ResolveExpressions
from tailrace_coordinator.shards.partition_log import OwnedPartition

Report = Callable[[OwnedPartition, ResolveExpressions, dict[str, tuple[str, ...]], int], Awaitable[Any]]
# Both bound how long the event loop compiles, and a thread matches: RE2 takes most time for classes such as \pL.
_MOST_CHARACTERS: Final = 256
_MOST_PROGRAM_BYTES: Final = 1 << 16
MOST_NAME_BYTES: Final = 500_000  # of the topics of a group's expressions: a record has those of one, a group all
Complain = Callable[[str, str], None]  # an expression, and what is wrong with it


def compiled(expression: str) -> Any:
    """Returns the compiled expression. Raises ApiError INVALID_REGULAR_EXPRESSION."""
    if len(expression) > _MOST_CHARACTERS:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex has {len(expression)} characters, the most are {_MOST_CHARACTERS}.",
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_PROGRAM_BYTES
    try:
        return re2.compile(expression, options)
    except re2.error as wrong:
        why = wrong.args[0] if wrong.args else wrong
        text = why.decode(errors="replace") if isinstance(why, bytes) else why
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {text}.",
        ) from wrong


def matches(
    expressions: Iterable[str],
    names: Sequence[str],
    may_describe: MayDescribe | None = None,
    complain: Complain = lambda expression, why: None,
) -> dict[str, tuple[str, ...]]:
    """Returns the topics of each expression, in the order of their names: it takes time that grows with both.

    may_describe: whether a topic that matches is among them; each is asked for once.

    An expression that the log has and that is refused here has no topics: Apache Kafka takes longer ones. Topics beyond
    MOST_NAME_BYTES are left out.
    """
    left = MOST_NAME_BYTES
    found: dict[str, tuple[str, ...]] = {}
    for expression in expressions:
        try:
            pattern = compiled(expression)
        except ApiError as refused:
            complain(expression, f"matches no topic: {refused.message}")
            found[expression] = ()
            continue
        matching = sorted(name for name in names if pattern.fullmatch(name))
        sizes = accumulate(map(len, matching))
        found[expression] = tuple(name for name, size in zip(matching, sizes, strict=True) if size <= left)
        if len(found[expression]) < len(matching):
            complain(expression, f"matches {len(matching)} topics, and the last ones are left out")
        left -= sum(map(len, found[expression]))
    if may_describe is None:
        return found
    known = {name for name in set[str]().union(*found.values()) if may_describe(name)}
    return {expression: tuple(name for name in some if name in known) for expression, some in found.items()}


class TopicRegexResolver:
    """Obeys ResolveExpressions; `tell` hands the shard the topics, with the version of the image they are of."""

    def __init__(self, image: Callable[[], MetadataImage], report: Report, log: FilteringBoundLogger) -> None:
        self._image = image
        self._report = report
        self._log = log
        self._running: dict[tuple[OwnedPartition, str], asyncio.Task[None]] = {}
        self._thread = ThreadPoolExecutor(1, "expressions")

    def act(self, owned: OwnedPartition, action: ResolveExpressions) -> None:
        """Begins, unless it is at it for this group: then the group asks again for what is missing in the answer.

        What a shard is not told because it went is matched again when it is loaded.
        """
        key = owned, action.group_id
        if key not in self._running:
            task = asyncio.get_running_loop().create_task(self._resolve(owned, action))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key))

    async def _resolve(self, owned: OwnedPartition, action: ResolveExpressions) -> None:
        image = self._image()
        found = await asyncio.get_running_loop().run_in_executor(
            self._thread,
            matches,
            action.expressions,
            tuple(image.topics),
            action.may_describe,
            lambda expression, why: self._log.warning(
                "a regular expression of a group", group=action.group_id, expression=expression, why=why
            ),
        )
        try:
            await self._report(owned, action, found, image.offset)
        except ApiError:
            return

    async def close(self) -> None:
        """Breaks off what is under way."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)
