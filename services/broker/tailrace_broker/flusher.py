"""Group commit for flush.messages: one fsync of a log runs at a time, what arrived meanwhile goes with the next.

The fsync runs in a thread; whoever needs it (acks, the high watermark, a follower's next fetch) waits on the loop. No
timer: the next flush begins when the last one ends. After a failed fsync nothing of that log is promised any more,
because the kernel forgets what it could not write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace_broker.partition import Partition

_THREADS = 8  # logs that are synced side by side: more do not make a disk faster


class Flusher:
    """Flushes on request; `on_flushed(partition, error)` hears of each end."""

    def __init__(self, now_ms: Callable[[], int], on_flushed: Callable[[Partition, OSError | None], None]) -> None:
        self._now_ms = now_ms
        self._on_flushed = on_flushed
        self._running: dict[Partition, asyncio.Task[None]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="flush")

    def __len__(self) -> int:
        return len(self._running)

    def request(self, partition: Partition) -> asyncio.Task[None]:
        """Flushes the log until flush.messages is content; the task ends then, also if the disk failed."""
        task = self._running.get(partition)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._flush(partition))
            self._running[partition] = task
        return task

    async def flushed(self, partitions: Iterable[Partition]) -> None:
        """Returns when none of them owes a flush."""
        tasks = [self.request(partition) for partition in partitions]
        if tasks:
            await asyncio.wait(tasks)

    async def _flush(self, partition: Partition) -> None:
        try:
            await self._until_content(partition)
        finally:
            # At once, not in a callback: who asks in between would be given a task that has ended and flushes nothing.
            del self._running[partition]

    async def _until_content(self, partition: Partition) -> None:
        loop = asyncio.get_running_loop()
        while partition.syncing and (log := partition.opened) is not None:
            begun = log.begin_flush(self._now_ms(), everything=True)
            if begun is not None:
                try:
                    await loop.run_in_executor(self._threads, begun.run)
                except OSError as failed:
                    partition.flush_failed(failed)
                    self._on_flushed(partition, failed)
                    return
                if partition.opened is not log:  # deleted meanwhile
                    return
                log.finish_flush(begun)
            partition.flushed()
            self._on_flushed(partition, None)

    def close(self) -> None:
        """Gives up what runs; a close of the log syncs it all the same."""
        for task in list(self._running.values()):
            task.cancel()
        self._threads.shutdown(wait=True)
