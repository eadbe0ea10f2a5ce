"""The store behind its one worker thread: the event loop never waits for the database, nor imports what it takes."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from tailrace.clock import Clock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from tailrace_controller.store import Store

T = TypeVar("T")


class Database:
    """Runs jobs on the store, one after the other."""

    def __init__(self, url: str, clock: Clock, log: "FilteringBoundLogger") -> None:
        self._url = url
        self._clock = clock
        self._log = log
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metadata-database")
        self._store: Store | None = None

    async def run(self, job: "Callable[[Store], T]") -> T:
        """Runs a job in the thread; its exceptions are store.StoreError, Deposed and OutcomeUnknown."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, job)

    def _run(self, job: "Callable[[Store], T]") -> T:
        if self._store is None:
            # 200 ms of imports: here they pass while the event loop binds sockets
            from tailrace_controller.store import Store

            self._store = Store(self._url, self._clock.monotonic_ms, self._blocked)
        return job(self._store)

    def _blocked(self, sentence: str) -> None:
        self._log.warning("the metadata database is locked", why=sentence)

    async def close(self) -> None:
        """Gives up waiting for locks, closes the database and ends the thread."""
        if self._store is not None:
            self._store.stop_waiting()
            await self.run(lambda store: store.close())
        self._thread.shutdown(wait=False)
