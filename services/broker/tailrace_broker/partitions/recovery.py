"""Logs whose unflushed tail takes long to check are recovered in threads: the event loop goes on with all others.

As Kafka's LogManager does with num.recovery.threads.per.data.dir threads for a log dir, but while the broker serves:
such a partition neither leads nor follows until its log is there (NOT_LEADER_OR_FOLLOWER), and who is asked for comes
first. One thread has a log at a time: the recovery's until the loop takes it over. So it is with a log that a
follower has to cut to agree with its leader.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from tailrace.kafka.ids import TopicPartition
from tailrace.log.directory.borrowed_log import BorrowedLog
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.directory.pending_recovery import Recovery
from tailrace.log.log import Log
from tailrace.log.recovery.loader import RecoveryStopped
from tailrace_broker.partitions.partition import Partition

_MOST_THREADS: Final = 64  # of all log dirs together
# Logs that were cut are told of together: a follower begins its fetch from their leader again each time.
_TOGETHER_SECONDS: Final = 0.02
# After a cut that failed, though not because of the disk: the next one may fail as well.
_REST_SECONDS: Final = 1.0


class RecoveredLogs(Protocol):
    """Where the logs lie: directories/storage.py."""

    def place_of(self, topic: str, index: int) -> LogDir | None:
        """As Storage.place_of."""
        ...

    def begin_recovery(self, topic: str, topic_id: UUID, index: int) -> Recovery | None:
        """As Storage.begin_recovery."""
        ...


class Recoveries:
    """All recoveries of a broker; subscribers get the partitions whose recovery is over, however it ended."""

    def __init__(self, storage: RecoveredLogs, threads_per_dir: Callable[[], int], log: FilteringBoundLogger) -> None:
        self._subscribers: list[Callable[[Iterable[TopicPartition]], None]] = []
        self._storage = storage
        self._threads_per_dir = threads_per_dir
        self._log = log
        self._wanted: dict[LogDir, OrderedDict[TopicPartition, UUID]] = {}
        self._running: Counter[LogDir] = Counter()
        self._threads = ThreadPoolExecutor(_MOST_THREADS, "recovery")
        self._cut: list[TopicPartition] = []  # not told of yet
        self._closed = True

    def subscribe(self, subscriber: Callable[[Iterable[TopicPartition]], None]) -> None:
        """Calls it with the partitions whose logs may be there."""
        self._subscribers.append(subscriber)

    def ended(self, key: TopicPartition) -> None:
        """The recovery of a partition's log is over."""
        for subscriber in self._subscribers:
            subscriber([key])

    async def run(self) -> None:
        """Until cancelled: then stops what runs, waits for the threads, and lets their dirs know."""
        self._closed = False
        try:
            self._begin()
            await asyncio.get_running_loop().create_future()
        finally:
            self._close()

    def holds(self, topic: str, topic_id: UUID, index: int) -> bool:
        """Whether the partition's log is still to be recovered, which begins as soon as a thread has time."""
        log_dir = self._storage.place_of(topic, index)
        if log_dir is not None and log_dir.lent(topic, index):
            return True
        if log_dir is None or log_dir.failure is not None or (topic, index) not in log_dir.tails:
            return False
        if (topic, index) in log_dir.tails.waiting:
            self._wanted.setdefault(log_dir, OrderedDict())[topic, index] = topic_id
            if not self._closed:
                asyncio.get_running_loop().call_soon(self._begin)
        return True

    def hurry(self, topic: str, index: int) -> None:
        """Somebody asks for the partition: it comes next."""
        for wanted in self._wanted.values():
            if (topic, index) in wanted:
                wanted.move_to_end((topic, index), last=False)

    def _begin(self) -> None:
        for log_dir, wanted in self._wanted.items():
            while wanted and not self._closed and self._running[log_dir] < self._threads_per_dir():
                self._start(log_dir, *wanted.popitem(last=False))

    def _start(self, log_dir: LogDir, key: TopicPartition, topic_id: UUID) -> None:
        try:
            recovery = self._storage.begin_recovery(key[0], topic_id, key[1])
        except OSError:  # of a disk that is offline from now on
            recovery = None
        if recovery is None:  # nothing to recover any more: what lies there was another topic's, or is gone
            self.ended(key)
            return
        self._running[log_dir] += 1
        ended = asyncio.get_running_loop().run_in_executor(self._threads, recovery.run)
        ended.add_done_callback(partial(self._ended, log_dir, recovery))

    def _ended(self, log_dir: LogDir, recovery: Recovery, ended: asyncio.Future[None]) -> None:
        self._running[log_dir] -= 1
        error = None if ended.cancelled() else ended.exception()
        if self._closed or ended.cancelled():
            return
        topic, index = recovery.key
        if error is not None and not isinstance(error, RecoveryStopped):
            self._log.error("a log was not recovered", topic=topic, partition=index, why=str(error))
        try:
            log_dir.finish_recovery(recovery)
        except OSError as failed:
            self._log.error("a log was not taken up", topic=topic, partition=index, why=str(failed))
        self.ended((topic, index))
        self._begin()

    def change(self, partition: Partition, change: Callable[[Log], None]) -> bool:
        """Has a thread change the partition's log; until it has ended the partition neither leads nor follows.

        False, with nothing done, where no thread can: the caller changes it itself.
        """
        key, log = (partition.topic, partition.index), partition.opened
        log_dir = self._storage.place_of(*key)
        if self._closed or log_dir is None or log_dir.failure is not None or log_dir.open_logs().get(key) is not log:
            return False
        log_dir.high_watermarks[key] = partition.high_watermark  # which it begins with when it is back
        loan = log_dir.lend(key, change)
        partition.close()
        partition.recovering, partition.syncing = True, False
        ended = asyncio.get_running_loop().run_in_executor(self._threads, loan.run)
        ended.add_done_callback(partial(self._changed, log_dir, loan))
        return True

    def _changed(self, log_dir: LogDir, loan: BorrowedLog, ended: asyncio.Future[None]) -> None:
        error = None if ended.cancelled() else ended.exception()
        if self._closed:
            return  # the log dir takes it back when it closes
        topic, index = loan.key
        if error is not None:
            self._log.error("a log was not cut", topic=topic, partition=index, why=str(error))
        try:
            log_dir.take_back(loan)
        except OSError as failed:
            self._log.error("a log was not taken back", topic=topic, partition=index, why=str(failed))
        loop = asyncio.get_running_loop()
        if log_dir.failure is not None:
            self._report([loan.key])
            return
        if error is not None:
            loop.call_later(_REST_SECONDS, self._report, [loan.key])
            return
        if not self._cut:
            self._cut = []
            loop.call_later(_TOGETHER_SECONDS, self._report, self._cut)
        self._cut.append(loan.key)

    def _report(self, keys: list[TopicPartition]) -> None:
        if keys is self._cut:
            self._cut = []
        for key in keys:
            if not self._closed:
                self.ended(key)

    def _close(self) -> None:
        """A log dir that misses one of its logs gets no clean-shutdown marker."""
        self._closed = True
        for log_dir, wanted in self._wanted.items():
            if wanted or log_dir.tails.begun:
                log_dir.tails.give_up()
        self._threads.shutdown(cancel_futures=True)
