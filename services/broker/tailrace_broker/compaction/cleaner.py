"""Compaction's side in the broker: which log next, who does the pass, and the swap. Nothing heavy runs on the loop.

The pass is the cleaner process's (worker.py); here are the decisions: the filthiest log first, each once a
round; a log that cannot be cleaned is set aside (uncleanable) and the others go on.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.config import Config
from tailrace.errors import ApiError
from tailrace.log.compaction import plan
from tailrace.log.compaction.job import DAMAGED, GONE, STORAGE, CleaningFailed
from tailrace.log.compaction.rewrite import Compaction, Outcome, RewriteLimits
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.log import Log
from tailrace.net.backoff import Backoff
from tailrace_broker.compaction.worker import Worker, WorkerDied, Workers
from tailrace_broker.directories.disk_pressure import DiskPressure
from tailrace_broker.directories.moves import DirMoves
from tailrace_broker.directories.storage import Storage
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.partitions.topics import Topics

DEATHS_PER_LOG: Final = 5  # a log under which the process died so often, without a pass in between, is set aside
_LOGS_PER_TICK: Final = 100
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)

TopicIdPartition = tuple[UUID, int]


class CleanerStats:
    """What the metrics and the topic view show; times in ms, of the wall clock."""

    def __init__(self) -> None:
        self.passes = 0
        self.failures = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.dirtiest_ratio = 0.0
        self.last_recopy_ratio = 0.0
        self.last_pass_ms = 0.0
        self.full_maps = 0
        self.uncleanable: dict[TopicIdPartition, str] = {}  # and why
        self.last_cleaned_ms: dict[TopicIdPartition, int] = {}


class Cleaner:
    """Runs rounds until cancelled."""

    def __init__(
        self,
        config: Callable[[], Config],
        clock: Clock,
        backoff: Backoff,
        workers: Workers,
        log: FilteringBoundLogger,
        *,
        now_ms: Callable[[], int],
        topics: Topics,
        storage: Storage,
        dir_moves: DirMoves,
        pressure: DiskPressure,
    ) -> None:
        self.stats = CleanerStats()
        self._config = config
        self._now_ms = now_ms
        self._topics = topics
        self._storage = storage
        self._dir_moves = dir_moves
        self._pressure = pressure
        self._clock = clock
        self._backoff = backoff
        self._workers = workers
        self._checkpointing = asyncio.Lock()  # an older one must not be written last
        self._log = log
        self._deaths: dict[TopicIdPartition, int] = {}

    async def run(self) -> None:
        """A round, then log.cleaner.backoff.ms unless it did something; the workers are closed at the end."""
        try:
            while True:
                if not await self.round():
                    config = self._config()
                    await self._clock.sleep(config.log_cleaner_backoff_ms)
        finally:
            await self._workers.close()

    async def round(self) -> bool:
        """Cleans every log that is dirty enough, the filthiest first; whether that moved any of them.

        log.cleaner.threads of them side by side, each in a process of its own.
        """
        config = self._config()
        workers = await self._workers.take(config.log_cleaner_threads if config.log_cleaner_enable else 0)
        if not workers:
            return False
        dirty = iter(await self._filthiest_first())
        worked = False

        async def work(worker: Worker) -> None:
            nonlocal worked
            for partition in dirty:
                worked = await self._clean(partition, worker) or worked

        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(work(worker))
        return worked

    async def _filthiest_first(self) -> list[Partition]:
        found: list[tuple[float, Partition]] = []
        dirtiest, now_ms = 0.0, self._now_ms()
        partitions = list(self._topics.partitions())
        self._forget_deleted(partitions)
        for number, partition in enumerate(partitions):
            if number % _LOGS_PER_TICK == _LOGS_PER_TICK - 1:
                await self._clock.sleep(0)
            log = partition.opened
            if log is None or not self.may_clean(partition):
                continue
            try:
                dirt = plan.dirt_of(log, now_ms, partition.high_watermark)
            except (ApiError, OSError) as unreadable:
                self._on_unreadable(partition, unreadable)
                continue
            if dirt is not None:
                dirtiest = max(dirtiest, dirt.ratio)
                found.append((dirt.ratio, partition))
        self.stats.dirtiest_ratio = dirtiest
        found.sort(key=lambda pair: pair[0], reverse=True)
        return [partition for _, partition in found]

    def may_clean(self, partition: Partition) -> bool:
        """Not while it moves between log dirs: of a key whose value was copied the tombstone might not be."""
        moves = self._dir_moves.moves
        return not partition.offline and partition not in moves and _place(partition) not in self.stats.uncleanable

    def _forget_deleted(self, partitions: Iterable[Partition]) -> None:
        known = [kept for kept in (self.stats.uncleanable, self.stats.last_cleaned_ms, self._deaths) if kept]
        here = {_place(partition) for partition in partitions} if known else set()
        for kept in known:
            for place in [place for place in kept if place not in here]:
                del kept[place]

    def dirty_ratio(self, partition: Partition) -> float | None:
        """Of a compacted log that is open here; None of any other, and of one whose disk or process refuses."""
        log = partition.opened
        if log is None or not log.limits.compact:
            return None
        try:
            dirt = plan.dirt_of(log, self._now_ms(), partition.high_watermark)
        except ApiError:  # damaged: it is said to be uncleanable
            return 0.0
        except OSError:
            return None
        return dirt.ratio if dirt is not None else 0.0

    def uncleanable_bytes(self) -> int:
        """Of the logs that are set aside."""
        if not self.stats.uncleanable:
            return 0
        return sum(
            partition.opened.size_bytes
            for partition in self._topics.partitions()
            if partition.opened is not None and _place(partition) in self.stats.uncleanable
        )

    async def _clean(self, partition: Partition, worker: Worker) -> bool:
        log = partition.opened
        if log is None or not self.may_clean(partition):
            return False
        config = self._config()
        share = max(1, config.log_cleaner_threads)  # the buffers are for all of them together, as in Kafka
        limits = RewriteLimits.of(
            config.log_cleaner_dedupe_buffer_size // share,
            config.log_cleaner_io_buffer_load_factor,
            config.log_cleaner_io_buffer_size // share,
            config.log_cleaner_io_max_bytes_per_second,
            self._spare_bytes(partition),
        )
        try:
            compaction = plan.begin(log, self._now_ms(), partition.high_watermark, limits)
        except (ApiError, OSError) as unreadable:
            self._on_unreadable(partition, unreadable)
            return False
        if compaction is None:
            return False
        started_ms = self._clock.monotonic_ms()
        log_dir = self._storage.place_of(partition.topic, partition.index)
        try:
            outcome = await worker.run(compaction.job)
            await asyncio.to_thread(compaction.take, outcome)
            self._backoff.reset()
            await self._swap(partition, log, compaction)
        except WorkerDied as died:
            await self._on_death(partition, died)
            return False
        except (CleaningFailed, ApiError, OSError, ValueError) as failed:
            self._report_disk(log_dir, failed)
            # A log that was cut or deleted meanwhile is no damaged one: its files were not what the job said.
            if partition.opened is log and log.compaction is compaction:
                self._on_failure(partition, log, compaction, failed)
            return False
        self._note(partition, compaction, outcome, self._clock.monotonic_ms() - started_ms)
        return outcome.cleaned_offset > compaction.job.first_dirty_offset

    def _spare_bytes(self, partition: Partition) -> int:
        """What its copies must leave free: below the mark producers are refused, and the rest is for internal topics.

        A quarter more, which may be appended before the room is measured again: the copies lie beside what they were
        made from for file.delete.delay.ms.
        """
        log_dir = self._storage.place_of(partition.topic, partition.index)
        pressure = None if log_dir is None else self._pressure.dirs.get(log_dir)
        return 0 if pressure is None else pressure.refuse_bytes * 5 // 4

    async def _swap(self, partition: Partition, log: Log, compaction: Compaction) -> None:
        """Swaps the copies in between requests, and writes the checkpoint when that is on the disk, never before."""
        if partition.opened is not log:
            return  # deleted: its directory has another name by now
        for _ in plan.swap(log, compaction):
            await self._clock.sleep(0)
            if partition.opened is not log:
                return
        await asyncio.to_thread(compaction.settle)
        if partition.opened is not log:
            return
        plan.end(log, compaction)
        log_dir = self._storage.place_of(partition.topic, partition.index)
        if log_dir is not None:
            async with self._checkpointing:
                await asyncio.to_thread(log_dir.begin_cleaner_checkpoint())

    def _note(self, partition: Partition, compaction: Compaction, outcome: Outcome, took_ms: float) -> None:
        stats = self.stats
        stats.passes += 1
        stats.bytes_read += outcome.bytes_read
        stats.bytes_written += outcome.bytes_written
        stats.full_maps += outcome.map_is_full
        stats.last_pass_ms = took_ms
        before = sum(size_bytes for _, size_bytes in compaction.job.segments)
        stats.last_recopy_ratio = outcome.bytes_written / before if before else 0.0
        stats.last_cleaned_ms[_place(partition)] = self._now_ms()
        self._deaths.pop(_place(partition), None)
        self._log.info(
            "compacted",
            topic=partition.topic,
            partition=partition.index,
            cleaned_offset=outcome.cleaned_offset,
            read_bytes=outcome.bytes_read,
            written_bytes=outcome.bytes_written,
        )

    async def _on_death(self, partition: Partition, died: WorkerDied) -> None:
        place = _place(partition)
        deaths = self._deaths[place] = self._deaths.get(place, 0) + died.had_begun
        self._log.error("the cleaner died", topic=partition.topic, partition=partition.index, why=str(died))
        if deaths >= DEATHS_PER_LOG:
            self._set_aside(partition, f"the cleaner process died {deaths} times under it: {died}")
        await self._backoff.wait()

    def _report_disk(self, log_dir: LogDir | None, failed: Exception) -> None:
        """What the disk refused the process takes the log dir offline (KIP-858); of this process its guard hears.

        Whatever became of the log meanwhile: the kernel tells of what it could not write once, and that was here.
        """
        if log_dir is None or not isinstance(failed, CleaningFailed) or failed.kind != STORAGE:
            return
        if failed.number not in _FULL:  # copies are all that it lacks room for
            log_dir.guard.note(OSError(failed.number, str(failed)))

    def _on_failure(self, partition: Partition, log: Log, compaction: Compaction, failed: Exception) -> None:
        """A damaged log is set aside as in Kafka; a full disk or files that retention took are tried again."""
        if _is_gone(failed) and not {base for base, _ in compaction.job.segments}.issubset(log.segments.bases):
            self._log.debug("retention was faster than compaction", topic=partition.topic, partition=partition.index)
            return
        self.stats.failures += 1
        if isinstance(failed, CleaningFailed) and failed.kind == DAMAGED:
            self._set_aside(partition, str(failed))
        else:
            self._log.warning("compaction failed", topic=partition.topic, partition=partition.index, why=str(failed))

    def _on_unreadable(self, partition: Partition, why: ApiError | OSError) -> None:
        """A damaged log is set aside; of its disk the guard has heard, and what this process lacks it may get."""
        if isinstance(why, ApiError):
            self._set_aside(partition, str(why))
        else:
            self.stats.failures += 1
            self._log.warning("compaction failed", topic=partition.topic, partition=partition.index, why=str(why))

    def _set_aside(self, partition: Partition, why: str) -> None:
        self.stats.uncleanable[_place(partition)] = why
        self._log.error("uncleanable partition", topic=partition.topic, partition=partition.index, why=why)


def _is_gone(failed: Exception) -> bool:
    return isinstance(failed, FileNotFoundError) or (isinstance(failed, CleaningFailed) and failed.kind == GONE)


def _place(partition: Partition) -> TopicIdPartition:
    return partition.topic_id, partition.index
