"""What happens when a log dir fails (KIP-858): its partitions stop at once, the controller hears of it, others go on.

A broker without any dir left, or that cannot tell the controller within log.dir.failure.timeout.ms, stops: as long as
it heartbeats the controller would leave it the leaderships.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.log.directory.log_dir import LogDir, LogDirRefused
from tailrace_broker.directories.storage import Storage
from tailrace_broker.dynamic_config import DynamicBrokerConfig
from tailrace_broker.lifecycle import Lifecycle


class DirWatch:
    """Hears of failures in any thread and acts on the loop."""

    def __init__(
        self,
        storage: Storage,
        on_dir_failed: Callable[[LogDir], None],
        lifecycle: Lifecycle,
        config: DynamicBrokerConfig,
        clock: Clock,
        log: FilteringBoundLogger,
    ) -> None:
        self._storage = storage
        self._on_dir_failed = on_dir_failed
        self._config = config
        self._lifecycle = lifecycle
        self._clock = clock
        self._log = log
        self._known: set[LogDir] = set()
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()
        storage.subscribe(lambda log_dir: loop.call_soon_threadsafe(self.failed, log_dir))

    async def run(self) -> None:
        """Until cancelled; raises LogDirRefused when the broker must stop."""
        for log_dir in self._storage.offline:
            self.failed(log_dir)
        raise LogDirRefused(await self._lost)

    def failed(self, log_dir: LogDir) -> None:
        """The dir is offline; says so once."""
        if log_dir in self._known:
            return
        self._known.add(log_dir)
        self._log.error("a log directory is offline", log_dir=log_dir.path, why=str(log_dir.failure))
        if log_dir.guard.unmarked is not None:
            self._log.error(
                "no mark could be left in a log directory that failed: unmount it, or restart the machine, before the "
                "broker starts again, or it may believe what the disk does not have",
                mark=log_dir.guard.mark,
                why=str(log_dir.guard.unmarked),
            )
        self._on_dir_failed(log_dir)
        if not self._storage.dirs:
            self._stop(f"no log directory is left: {log_dir.path} failed with {log_dir.failure}")
            return
        if not log_dir.readable:
            return  # never registered, so the controller does not count on it
        self._lifecycle.report_offline(log_dir.directory_id)
        self._clock.call_later(self._config.current.log_dir_failure_timeout_ms, lambda: self._overdue(log_dir))

    def _overdue(self, log_dir: LogDir) -> None:
        if log_dir.directory_id not in self._lifecycle.reported_dirs:
            self._stop(
                f"the controller could not be told within log.dir.failure.timeout.ms that {log_dir.path} is offline"
            )

    def _stop(self, why: str) -> None:
        if not self._lost.done():
            self._lost.set_result(why)
