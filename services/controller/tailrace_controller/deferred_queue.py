"""Decisions on their way into the database, and the replies that wait for them (Kafka's DeferredEventQueue)."""

import asyncio
from collections import deque

from tailrace.errors import ApiError, ErrorCode
from tailrace_controller.decision import Decided

RECORDS_MAX = 100_000


class DeferredQueue:
    """Of one controller, in the order in which it decided."""

    def __init__(self) -> None:
        self.records_max = RECORDS_MAX
        self.records = 0  # of decisions that no append has taken yet
        self._decisions: deque[Decided[object]] = deque()
        self._replies: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._added = asyncio.Event()

    def add(self, made: Decided[object]) -> None:
        """Has the next append take it. REQUEST_TIMED_OUT if too much waits for the database already."""
        if self.records > self.records_max:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "the metadata database does not take writes at present")
        self._decisions.append(made)
        self.records += len(made.records)
        self._added.set()

    async def next_group(self) -> list[Decided[object]]:
        """All that wait for an append, as soon as there is one: they go out together."""
        while not self._decisions:
            self._added.clear()
            await self._added.wait()
        group = list(self._decisions)
        self._decisions.clear()
        self.records = 0
        return group

    async def until_committed(self, offset: int) -> None:
        """Waits for the record at this offset, which is not committed yet. Raises what drop() says."""
        future = asyncio.get_running_loop().create_future()
        self._replies.append((offset, future))
        await future

    def committed(self, offset: int) -> None:
        """Everything up to this offset is."""
        while self._replies and self._replies[0][0] <= offset:
            _, future = self._replies.popleft()
            if not future.done():
                future.set_result(None)

    def refuse(self, offset: int, why: str) -> None:
        """Answers INVALID_REQUEST to the sender of the decision that ends at this offset, which is not written.

        Its sender was the first to wait for the offset. All others get NOT_CONTROLLER and retry: they saw it.
        """
        sender = next((future for end, future in self._replies if end == offset), None)
        if sender is not None and not sender.done():
            sender.set_exception(ApiError(ErrorCode.INVALID_REQUEST, why))
        self.drop("a decision before this one could not be stored")

    def drop(self, why: str) -> None:
        """Nobody knows what becomes of any of it: NOT_CONTROLLER for all that wait."""
        self._decisions.clear()
        self.records = 0
        replies, self._replies = self._replies, deque()
        for _, future in replies:
            if not future.done():
                future.set_exception(ApiError(ErrorCode.NOT_CONTROLLER, why))
