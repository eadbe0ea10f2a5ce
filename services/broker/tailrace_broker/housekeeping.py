"""What goes on behind requests: retention, flushes, checkpoints. Each on its own timer, heavy work in a thread.

A log for which something fails does not keep the others from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.errors import ApiError
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.pending_deletions import remove_paths
from tailrace.net.turns import turns
from tailrace_broker.directories.disk_pressure import DiskPressure
from tailrace_broker.directories.replica_dirs import note_high_watermarks
from tailrace_broker.directories.storage import Storage
from tailrace_broker.dynamic_config import DynamicBrokerConfig
from tailrace_broker.partitions.flusher import Flusher
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.partitions.topics import Topics

_CHECKPOINT_MS = 5000
_FLUSH_MS = 1000
_SPACE_MS = 1000
_REMOVAL_MS = 1000


class Housekeeping:
    """The broker's background work."""

    def __init__(
        self,
        topics: Topics,
        storage: Storage,
        flusher: Flusher,
        pressure: DiskPressure,
        config: DynamicBrokerConfig,
        clock: Clock,
        log: FilteringBoundLogger,
    ) -> None:
        self._topics = topics
        self._storage = storage
        self._flusher = flusher
        self._pressure = pressure
        self._config = config
        self._clock = clock
        self._log = log
        self._unflushed: set[Partition] = set()  # a flush of them may become due
        self._unnoted: set[Partition] = set()  # their high watermark may not be in the checkpoint

    async def run(self) -> None:
        """Runs until cancelled."""
        config = self._config.current
        async with asyncio.TaskGroup() as group:
            group.create_task(self._every(_CHECKPOINT_MS, self.checkpoint))
            group.create_task(self._every(_FLUSH_MS, self.flush))
            group.create_task(self._every(_SPACE_MS, self.measure_space))
            group.create_task(self._every(_REMOVAL_MS, self.remove_files))
            group.create_task(self._every(config.log_retention_check_interval_ms, self.retain))

    async def _every(self, interval_ms: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._clock.sleep(interval_ms)
            try:
                await work()
            except (OSError, ApiError) as failed:
                self._log.error("housekeeping failed", work=work.__name__, why=str(failed))

    async def checkpoint(self) -> None:
        """Writes the high watermarks of logs that changed, then each dir's checkpoint files."""
        self._take_changed()
        moved, self._unnoted = self._unnoted, set()
        try:
            for log_dir in await note_high_watermarks(self._topics, self._storage, moved):
                async for key in turns(list(log_dir.open_logs())):
                    log_dir.note_offsets(key)
                await asyncio.to_thread(log_dir.write_checkpoints)
        except OSError:
            self._unnoted |= moved
            raise
        self._flusher.settle_all(self._storage.dirs)  # again, where a disk would not

    def _take_changed(self) -> None:
        """Flushes and checkpoints look at what changed since the last look only: idle partitions cost nothing."""
        changed: set[Partition] = self._topics.node.take_changed()
        self._unflushed |= changed
        self._unnoted |= changed

    async def flush(self) -> None:
        """flush.ms, and closed segments that are not on the disk yet: synced in a thread, one log after another."""
        self._take_changed()
        self._unflushed = {partition for partition in self._unflushed if not partition.offline}
        failed: list[OSError] = []
        async for partition in self._topics.each(self._unflushed):
            log = partition.opened
            recovery_point = 0 if log is None else log.recovery_point
            try:
                await self._flusher.upkeep(partition)
            except OSError as error:
                failed.append(error)
                continue
            if log is None or not log.flush_to_come:
                self._unflushed.discard(partition)
            if log is not None and log.recovery_point != recovery_point:
                self._unnoted.add(partition)
        if failed:
            raise failed[0]

    async def measure_space(self) -> None:
        """Producers are slowed, refused and taken again by what is free (directories/disk_pressure.py)."""
        self._pressure.measure()

    async def retain(self) -> None:
        """retention.ms and retention.bytes. A log nobody used since the start is opened only if there may be work."""
        storage, failed = self._storage, list[Exception]()
        now_ms = self._clock.wall_ms()
        for log_dir in storage.dirs:
            try:
                await asyncio.to_thread(log_dir.begin_look(log_dir.unopened()))
            except OSError as error:
                failed.append(error)
        async for partition in self._topics.each():
            try:
                if partition.opened is None and storage.has_work(partition.topic, partition.index, now_ms):
                    _ = partition.log  # opens it
            except (OSError, ApiError) as error:
                failed.append(error)
        self._take_changed()
        # Those of the last checkpoint are seconds old.
        await note_high_watermarks(self._topics, self._storage, self._unnoted)
        now_ms = self._clock.wall_ms()
        for log_dir in storage.dirs:
            await self._learn_ages(log_dir, now_ms)
            async for key in turns(list(log_dir.open_logs())):
                try:
                    log_dir.retention.apply_to(key, now_ms, known_only=True)
                except (OSError, ApiError) as error:  # which does not keep the others from it
                    failed.append(error)
        if failed:
            raise failed[0]

    async def remove_files(self) -> None:
        """Removes what was deleted file.delete.delay.ms ago; where that fails it is tried again the next time."""
        failed, now_ms = list[OSError](), self._clock.wall_ms()
        for log_dir in self._storage.dirs:
            while paths := log_dir.pending_deletions.due(now_ms):
                try:
                    await asyncio.to_thread(remove_paths, log_dir.guard, paths)
                except OSError as error:
                    failed.append(error)
                    for path in paths:
                        log_dir.pending_deletions.add(path, now_ms, _REMOVAL_MS)
        if failed:
            raise failed[0]

    async def _learn_ages(self, log_dir: LogDir, now_ms: int) -> None:
        """A thread reads the indexes that say how old the oldest segments are, where nobody has needed them yet."""
        async for key in turns(list(log_dir.open_logs())):
            try:
                while (look := log_dir.retention.begin_look_at_age(key, now_ms)) is not None:
                    await asyncio.to_thread(look.run)
                    if not look.take_up():
                        break  # changed meanwhile: the next time
            except (OSError, ApiError) as failed:  # of a disk that fails its guard has heard
                self._log.error("retention cannot tell an age", topic=key[0], partition=key[1], why=str(failed))
