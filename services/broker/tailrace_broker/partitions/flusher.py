"""Group commit for flush.messages: one fsync of a log runs at a time, what arrived meanwhile goes with the next.

The fsync runs in a thread; whoever needs it (acks, the high watermark, a follower's next fetch) waits on the loop. No
timer: the next flush begins when the last one ends. After a failed fsync nothing of that log is promised any more,
because the kernel forgets what it could not write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from tailrace.log.filesystem.open_files import sync_files
from tailrace.log.filesystem.real import NO_DESCRIPTOR
from tailrace.net.background import in_thread, spawn

if TYPE_CHECKING:
    from tailrace.clock import Clock
    from tailrace.log.directory.log_dir import LogDir
    from tailrace.log.filesystem.open_files import FileHolder, OpenFiles
    from tailrace.log.flush import Flush
    from tailrace.log.log import Log
    from tailrace_broker.partitions.partition import Partition

_THREADS = 8  # logs that are synced side by side: more do not make a disk faster
_RELIEVERS = 2  # of these threads
_RELIEVED_A_TURN = 16  # files, before a thread has another turn
_REST_MS = 100  # before a flush for which no descriptor was left is begun again


class Flusher:
    """Flushes on request; `on_flushed(partition, error)` hears of each end."""

    def __init__(self, clock: Clock, on_flushed: Callable[[Partition, OSError | None], None]) -> None:
        self._clock = clock
        self._on_flushed = on_flushed
        self._running: dict[Partition, asyncio.Task[None]] = {}
        self._settling: set[asyncio.Task[bool]] = set()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="flush")
        self._relieving = 0  # threads that sync files which are to be closed
        self._closed = False

    def __len__(self) -> int:
        return len(self._running)

    def _now_ms(self) -> int:
        """What flush.ms is counted by: no wall clock, or records would wait for as long as one was set back."""
        return int(self._clock.monotonic_ms())

    def request(self, partition: Partition) -> asyncio.Task[None]:
        """Flushes the log until flush.messages is content; the task ends then, also if the disk failed."""
        return self._running.get(partition) or self._begin(partition, None)

    def runs(self, partition: Partition) -> bool:
        """Whether a flush of its log is on its way."""
        return partition in self._running

    async def flushed(self, partitions: Iterable[Partition]) -> None:
        """Returns when none of them owes a flush."""
        tasks = [self.request(partition) for partition in partitions]
        if tasks:
            await asyncio.wait(tasks)

    async def upkeep(self, partition: Partition) -> None:
        """Syncs what flush.ms and closed segments ask for, unless a flush of the log is on its way anyway."""
        log = partition.opened
        if log is None or partition in self._running:
            return
        begun = log.begin_flush(self._now_ms())
        if begun is not None:
            await asyncio.wait([self._begin(partition, begun)])

    async def everything(self, partition: Partition) -> bool:
        """Syncs the whole log, whatever its configs say; whether that is on the disk."""
        while (running := self._running.get(partition)) is not None:
            await asyncio.wait([running])
        log = partition.opened
        if log is None:
            return False
        end_offset, begun = log.log_end_offset, log.begin_flush(self._now_ms(), everything=True)
        if begun is not None:
            await asyncio.wait([self._begin(partition, begun)])
        return partition.opened is log and log.recovery_point >= end_offset

    async def log_starts(self, begun: Mapping[LogDir, Callable[[], None]]) -> None:
        """Writes what LogDir.begin_log_start_checkpoint returned; a dir that refuses it is offline from then on."""
        await asyncio.gather(*(self._log_starts(log_dir, write) for log_dir, write in begun.items()))

    async def _log_starts(self, log_dir: LogDir, write: Callable[[], None]) -> None:
        while log_dir.failure is None:
            try:
                await asyncio.get_running_loop().run_in_executor(self._threads, write)
            except OSError as failed:
                if failed.errno not in NO_DESCRIPTOR:
                    log_dir.fail(failed)
                else:
                    await self._clock.sleep(_REST_MS)
            else:
                return

    def settle(self, log_dir: LogDir) -> asyncio.Task[bool]:
        """What became of logs that were taken away is put on the disk; whether it is there."""
        return spawn(self._settle(log_dir), self._settling)

    def relieve(self, open_files: OpenFiles) -> None:
        """Has files that must be synced before they are closed synced in threads, whenever there are too many open."""
        loop = asyncio.get_running_loop()
        open_files.relieved_by(partial(loop.call_soon_threadsafe, self._relieve, open_files))

    def _relieve(self, open_files: OpenFiles) -> None:
        open_files.make_room()
        if self._relieving < _RELIEVERS and not self._closed and (owed := open_files.take_owed(_RELIEVED_A_TURN)):
            self._relieving += 1
            done = asyncio.get_running_loop().run_in_executor(self._threads, sync_files, owed)
            done.add_done_callback(partial(self._relieved, open_files, owed))

    def _relieved(self, open_files: OpenFiles, synced: list[FileHolder], _: asyncio.Future[None]) -> None:
        self._relieving -= 1
        open_files.put_back(synced)
        self._relieve(open_files)

    def settle_all(self, log_dirs: Iterable[LogDir]) -> None:
        """Settles those that owe it, behind whoever asks."""
        for log_dir in log_dirs:
            if log_dir.unsettled:
                self.settle(log_dir)

    async def _settle(self, log_dir: LogDir) -> bool:
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, log_dir.settle)
        except OSError:  # which took the dir offline, or the next checkpoint tries again
            return False
        return True

    def _begin(self, partition: Partition, begun: Flush | None) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._flush(partition, begun))
        self._running[partition] = task
        return task

    async def _flush(self, partition: Partition, begun: Flush | None) -> None:
        """One flush after the other, never two of one log: they write the same files."""
        try:
            while (log := partition.opened) is not None:
                try:
                    if begun is None:
                        begun = log.begin_flush(self._now_ms(), everything=True) if partition.syncing else None
                    if begun is not None and not await self._run(partition, log, begun):
                        return
                except OSError as failed:
                    if failed.errno not in NO_DESCRIPTOR:
                        raise
                    begun = None
                    log.filesystem.open_files.shed()
                    await self._clock.sleep(_REST_MS)
                    continue
                begun = None
                if not partition.syncing:
                    return
                partition.flushed()
                self._on_flushed(partition, None)
        finally:
            # At once, not in a callback: who asks in between would be given a task that has ended and flushes nothing.
            del self._running[partition]

    async def _run(self, partition: Partition, log: Log, begun: Flush) -> bool:
        """Syncs in a thread; whether the partition is still there and its disk sound.

        Raises OSError where no descriptor was left: the disk has failed in nothing, and may be asked again.
        """
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, begun.run)
        except OSError as failed:
            if failed.errno in NO_DESCRIPTOR:
                raise
            if partition.opened is log:  # of a log that was deleted meanwhile, files are gone
                self._on_flushed(partition, failed)
            return False
        if partition.opened is not log:
            return False
        log.finish_flush(begun)
        return True

    async def close(self) -> None:
        """Gives up what runs, and waits for its threads; a close of the log syncs it all the same."""
        self._closed = True
        for task in (*self._running.values(), *self._settling):
            task.cancel()
        await in_thread(self._threads.shutdown)
