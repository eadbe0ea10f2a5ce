"""Logs whose unflushed tail takes long to check are recovered in threads: the event loop goes on with all others.

As Kafka's LogManager does with num.recovery.threads.per.data.dir threads for a log dir, but while the broker serves:
such a partition neither leads nor follows until its log is there (NOT_LEADER_OR_FOLLOWER), and who is asked for comes
first. One thread has a log at a time: the recovery's until the loop takes it over.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final
from uuid import UUID

from tailrace.log.checkpoints import TopicPartition
from tailrace.log.logs import LogDir
from tailrace.log.recovery import RecoveryStopped
from tailrace.log.tails import Recovery
from tailrace_broker.storage import Storage
from tailrace_broker.switching import Switching

_MOST_THREADS: Final = 64  # of all log dirs together


class Recoveries:
    """All recoveries of a broker; on_recovered(topic, partition) hears of each that is over, however it ended."""

    def __init__(self, storage: Storage, threads_per_dir: Callable[[], int], switching: Switching, log: Any) -> None:
        self.on_recovered: Callable[[str, int], None] = lambda topic, index: None
        self._storage = storage
        self._threads_per_dir = threads_per_dir
        self._log = log
        self._wanted: dict[LogDir, OrderedDict[TopicPartition, UUID]] = {}
        self._running: Counter[LogDir] = Counter()
        self._threads = ThreadPoolExecutor(_MOST_THREADS, "recovery")
        self._switching = switching
        self._closed = True

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
            self.on_recovered(*key)
            return
        self._running[log_dir] += 1
        self._switching.hold()
        ended = asyncio.get_running_loop().run_in_executor(self._threads, recovery.run)
        ended.add_done_callback(partial(self._ended, log_dir, recovery))

    def _ended(self, log_dir: LogDir, recovery: Recovery, ended: asyncio.Future[None]) -> None:
        self._running[log_dir] -= 1
        self._switching.release()
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
        self.on_recovered(topic, index)
        self._begin()

    def _close(self) -> None:
        """A log dir that misses one of its logs gets no clean-shutdown marker."""
        self._closed = True
        for log_dir, wanted in self._wanted.items():
            if wanted or log_dir.tails.begun:
                log_dir.tails.give_up()
        self._threads.shutdown(cancel_futures=True)
