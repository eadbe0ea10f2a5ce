"""The store behind its one worker thread: the event loop never waits for the database, nor imports what it takes."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tailrace.clock import Cancellable, Clock
from tailrace_controller.metadata_log.port import MetadataStore

T = TypeVar("T")
GRACE_S = 0.1  # for a job that nobody waits for any more, before it loses its connection


class Database:
    """Runs jobs on the store, one after the other. `shared` where other controllers may use it, too (PostgreSQL)."""

    def __init__(self, open_store: Callable[[], MetadataStore], clock: Clock, lease_ms: float, *, shared: bool) -> None:
        """open_store is called by the thread, for the first job: what it imports takes some 200 ms."""
        self.shared = shared
        self._open_store = open_store
        self._clock = clock
        self._lease_ms = lease_ms
        self._turn: asyncio.Lock = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metadata-database")
        self._store: MetadataStore | None = None

    async def run(self, job: Callable[[MetadataStore], T], timeout_ms: float | None = None) -> T:
        """Runs a job in the thread; its exceptions are stored.StoreError, Deposed and OutcomeUnknown.

        A shared database that has not answered after the timeout loses its connection (OutcomeUnknown), and so it does
        when nobody waits for the job any more: once this returned or raised, the job is over, or will not begin.
        """
        async with self._turn:
            running = asyncio.wrap_future(self._thread.submit(self._run, job))
            with self._watched(timeout_ms if self.shared else None):
                try:
                    return await asyncio.shield(running)
                except asyncio.CancelledError:
                    if self.shared:
                        await asyncio.wait([running], timeout=GRACE_S)
                        given_up = False
                        while not running.done() and not given_up:  # it may only be about to connect
                            given_up = self._interrupt()
                            await asyncio.wait([running], timeout=GRACE_S)
                    running.cancel()
                    if running.done() and not running.cancelled():
                        running.exception()  # nobody is interested in it
                    raise

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Runs what takes long and needs no database in another thread: renewals, and all else, go on."""
        return await asyncio.to_thread(work)

    async def news(self, timeout_ms: float) -> None:
        """Returns when the lease row may have changed, or after the timeout. OutcomeUnknown without a connection."""
        fd = await self.run(lambda store: store.listen(), self._lease_ms)
        if fd is None:
            return
        loop = asyncio.get_running_loop()
        called: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not called.done():
                called.set_result(None)

        timer = self._clock.call_later(timeout_ms, wake)
        if fd >= 0:
            loop.add_reader(fd, wake)
        try:
            await called
        finally:
            timer.cancel()
            if fd >= 0:
                loop.remove_reader(fd)

    @contextlib.contextmanager
    def _watched(self, timeout_ms: float | None) -> Iterator[None]:
        """Interrupts what takes longer, again and again: it may have been connecting the first time."""
        if timeout_ms is None:
            yield
            return
        timer: Cancellable

        def overdue() -> None:
            nonlocal timer
            self._interrupt()
            timer = self._clock.call_later(timeout_ms, overdue)

        timer = self._clock.call_later(timeout_ms, overdue)
        try:
            yield
        finally:
            timer.cancel()

    def _interrupt(self) -> bool:
        """Whether nothing comes of what runs, however long it still takes."""
        return self._store is not None and self._store.interrupt()

    def _run(self, job: Callable[[MetadataStore], T]) -> T:
        if self._store is None:
            self._store = self._open_store()
        return job(self._store)

    async def close(self) -> None:
        """Gives up waiting for locks and answers, closes the database and ends the thread.

        A thread that connects to a host that says nothing is left to itself.
        """
        self._interrupt()
        if self._store is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S if self.shared else None):
                    await self.run(lambda store: store.close())
        self._thread.shutdown(wait=False, cancel_futures=True)
