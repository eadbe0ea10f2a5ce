"""The workers of all topics that ask to be tables: begun, started again after a failure, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from random import Random
from typing import Final

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.errors import ApiError
from tailrace.kafka.ids import format_uuid
from tailrace.net.backoff import Backoff
from tailrace.net.client import Disconnected
from tailrace.reading.reader import AskNode, Gap, TopicReader
from tailrace.tables.fields.field import Decode, SchemaFailure
from tailrace.tables.metrics import TableMetrics, TopicMetrics
from tailrace.tables.store import CommitConflict, StoreFailure, TopicStore
from tailrace.tables.topics import TopicFinder
from tailrace.tables.worker import Blocking, TableTopic, TopicWorker
from tailrace.wire.malformed import Malformed

MOST_TOPICS: Final = 100
_LOOK_MS: Final = 5_000.0
_PATIENCE_MS: Final = 30_000.0
_FIRST_PAUSE_MS, _LAST_PAUSE_MS = 500, 30_000
_GOOD_LIFE_MS: Final = 60_000
FAILURES: Final = (ApiError, Disconnected, TimeoutError, Malformed, SchemaFailure, CommitConflict, StoreFailure)
StoreOf = Callable[[TableTopic], TopicStore]
DecodeOf = Callable[[TableTopic], Decode]  # raises SchemaFailure


class _Running:
    """The task of a topic's worker."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class TableService:
    """Topics are looked for every five seconds; a changed one gets a new worker when the old one has ended."""

    def __init__(
        self,
        ask: AskNode,
        store_of: StoreOf,
        decode_of: DecodeOf,
        clock: Clock,
        random: Random,
        log: FilteringBoundLogger,
        metrics: TableMetrics,
        blocking: Blocking,
        only: Collection[str] = (),
    ) -> None:
        """only: the names of the topics that are looked at; empty: of all."""
        self._ask = ask
        self._store_of = store_of
        self._decode_of = decode_of
        self._clock = clock
        self._random = random
        self._log = log
        self._metrics = metrics
        self._blocking = blocking
        self._topics = TopicFinder(ask, clock, only)
        self._running: dict[TableTopic, _Running] = {}
        self._left_out = 0
        self._unseen = ""  # why topics cannot be looked for now

    async def run(self, stop: asyncio.Event) -> None:
        """Until stop is set; then every worker commits what it has."""
        try:
            while not stop.is_set():
                try:
                    self._reconcile(await self._topics.find())
                    self._unseen = ""
                except FAILURES as error:
                    if self._unseen != (why := _why(error)):  # once, not every five seconds
                        self._unseen = why
                        self._log.warning("topics cannot be looked for now", why=why)
                await self._pause(stop, _LOOK_MS)
        finally:
            await self._end_all()

    async def run_once(self) -> list[str]:
        """Brings each table up to the end of its topic; the names of the topics. Raises what the workers raise."""
        topics = await self._topics.find()
        for topic in topics:
            await self._live(topic, self._metrics.of(topic.name), asyncio.Event(), once=True)
        return [topic.name for topic in topics]

    def _reconcile(self, wanted: list[TableTopic]) -> None:
        if self._left_out != max(0, len(wanted) - MOST_TOPICS):
            self._left_out = max(0, len(wanted) - MOST_TOPICS)
            self._log.warning("topics wait for another worker with --topic", most=MOST_TOPICS, waiting=self._left_out)
        wanted = wanted[:MOST_TOPICS]
        for topic, running in list(self._running.items()):
            assert running.task is not None
            if running.task.done():
                del self._running[topic]
                if error := running.task.exception():
                    self._log.error("a worker failed", topic=topic.name, exc_info=error)
            elif topic not in wanted:
                running.stop.set()
        names = {topic.name for topic in self._running}
        for topic in wanted:
            if topic.name not in names:
                self._log.info(
                    "table", topic=topic.name, topic_id=format_uuid(topic.topic_id), partitions=topic.partitions
                )
                running = self._running[topic] = _Running()
                running.task = asyncio.create_task(self._keep(topic, running.stop), name=f"table-{topic.name}")

    async def _keep(self, topic: TableTopic, stop: asyncio.Event) -> None:
        """Lives of a topic's worker until it is stopped."""
        backoff = Backoff(self._clock, self._random, _FIRST_PAUSE_MS, _LAST_PAUSE_MS)
        metrics = self._metrics.of(topic.name)
        try:
            while not stop.is_set():
                began_ms = self._clock.monotonic_ms()
                try:
                    await self._live(topic, metrics, stop, once=False)
                except FAILURES as error:
                    metrics.failed()
                    if self._clock.monotonic_ms() - began_ms >= _GOOD_LIFE_MS:
                        backoff.reset()
                    self._log.warning("a table is started again", topic=topic.name, why=_why(error))
                    await self._pause(stop, backoff.next_ms())
        finally:
            metrics.forget()

    async def _live(self, topic: TableTopic, metrics: TopicMetrics, stop: asyncio.Event, *, once: bool) -> None:
        def on_gap(gap: Gap) -> None:
            metrics.lost(max(0, gap.next_offset - gap.wanted))
            self._log.warning("offsets are not in the log any more", topic=topic.name, **gap._asdict())

        reader = TopicReader(
            self._ask,
            self._clock,
            topic.name,
            patience_ms=_PATIENCE_MS,
            committed=True,
            topic_id=topic.topic_id,
            on_gap=on_gap,
        )
        try:
            store, decode = self._store_of(topic), self._decode_of(topic)
            worker = TopicWorker(topic, reader, store, decode, self._clock, metrics, self._log, self._blocking)
            await worker.run(stop.is_set, once=once)
        finally:
            await reader.close()

    async def _pause(self, stop: asyncio.Event, delay_ms: float) -> None:
        """Ends early when it is stopped."""
        waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(self._clock.sleep(delay_ms))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _end_all(self) -> None:
        tasks = []
        for running in self._running.values():
            running.stop.set()
            assert running.task is not None
            tasks.append(running.task)
        await asyncio.gather(*tasks, return_exceptions=True)


def _why(error: Exception) -> str:
    if isinstance(error, CommitConflict):
        return f"another writer was first: {error}"
    return f"{type(error).__name__}: {error}"
