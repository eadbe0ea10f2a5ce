"""The worker of one topic: reads committed records, commits them in batches, settles what a crash left open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.reading.cursor import Cursor
from tailrace.reading.reader import TopicReader
from tailrace.reading.start import EARLIEST, LATEST_TIMESTAMP
from tailrace.records.record import Record
from tailrace.tables.batch import Batch, DeadLetter, split
from tailrace.tables.columns import Columns, Schema
from tailrace.tables.fields.field import JSON, Decode
from tailrace.tables.metrics import TopicMetrics
from tailrace.tables.store import Position, TopicStore

_WAIT_MS: Final = 500  # of a Fetch without records
_COMMITS_UNTIL_MAINTENANCE: Final = 20
_DID_NOT_FIT: Final = "its fields did not fit the columns of the table"
T = TypeVar("T")


class Blocking(Protocol):
    """Runs what blocks, in a thread or at once."""

    def __call__(self, call: Callable[[], T]) -> Awaitable[T]: ...


class TableTopic(NamedTuple):
    """A topic that asks to be a table."""

    name: str
    topic_id: UUID
    partitions: int
    commit_interval_ms: int
    value_format: str = JSON
    value_schema: str = ""


class TopicWorker:
    """One life of a topic's worker: from what the tables have until it is stopped, or until anything fails.

    What fails leaves nothing behind in memory: the next life begins with what the tables have.
    """

    def __init__(
        self,
        topic: TableTopic,
        reader: TopicReader,
        store: TopicStore,
        decode: Decode,
        clock: Clock,
        metrics: TopicMetrics,
        log: FilteringBoundLogger,
        blocking: Blocking,
    ) -> None:
        self._topic = topic
        self._reader = reader
        self._store = store
        self._decode = decode
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._blocking = blocking
        self._schema: Schema = {}
        self._batch = Batch()
        self._oldest_ms: float | None = None  # timestamp of the first record of the batch
        self._due_ms = 0.0
        self._polled_ms = clock.wall_ms()
        self._commits = 0
        metrics.watch_lag(self._lag_seconds)

    async def run(self, is_stopped: Callable[[], bool], *, once: bool = False) -> None:
        """Ends after a last commit when it is stopped; once: at the end of the topic as it was at the start.

        Raises ApiError, Disconnected or TimeoutError where the topic cannot be read, SchemaFailure where its values
        cannot be decoded now, CommitConflict or StoreFailure where the tables cannot be written.
        """
        partitions = range(self._topic.partitions)
        loaded = await self._blocking(lambda: self._store.load(partitions))
        self._schema = loaded.schema
        await self._settle({index: at for index, at in loaded.positions.items() if at.dead_from is not None})
        cursors = await self._reader.find(EARLIEST, until=LATEST_TIMESTAMP if once else None, partitions=partitions)
        for cursor in cursors:
            if (at := loaded.positions.get(cursor.partition)) is not None:
                cursor.offset = at.offset
        self._reader.assign(cursors)
        while not is_stopped() and not (once and self._reader.done):
            await self._poll()
        await self._commit()
        if once:
            await self._blocking(self._store.maintain)

    async def _poll(self) -> None:
        polled = await self._reader.poll(_WAIT_MS)
        self._polled_ms = self._clock.wall_ms()
        for partition, record in polled:
            if not len(self._batch):
                self._oldest_ms = record.timestamp if record.timestamp >= 0 else self._polled_ms
                self._due_ms = self._clock.monotonic_ms() + self._topic.commit_interval_ms
            self._batch.add(partition, record)
            if self._batch.is_full:
                await self._commit()
        if len(self._batch) and self._clock.monotonic_ms() >= self._due_ms:
            await self._commit()

    async def _commit(self) -> None:
        """Rows and offsets in one commit, then the dead letters, before any other commit of rows."""
        if not len(self._batch):
            return
        began_ms = self._clock.monotonic_ms()
        batch, schema = self._batch, self._schema
        plan = await self._blocking(lambda: batch.plan(schema, self._decode))
        await self._blocking(lambda: self._store.append(plan))
        if plan.letters:
            offsets = {partition: plan.offsets[partition] for partition in plan.dead_from}
            await self._blocking(lambda: self._store.append_letters(plan.letters, offsets))
        self._batch, self._oldest_ms, self._schema = Batch(), None, plan.types
        seconds = (self._clock.monotonic_ms() - began_ms) / 1000
        self._metrics.committed(len(plan.rows), len(plan.letters), seconds)
        self._log.debug("committed", topic=self._topic.name, rows=len(plan.rows), dead_letters=len(plan.letters))
        self._commits += 1
        if self._commits % _COMMITS_UNTIL_MAINTENANCE == 0:
            await self._blocking(self._store.maintain)

    async def _settle(self, positions: Mapping[int, Position]) -> None:
        """Commits the dead letters of a commit whose worker died before it came to them.

        They are the records from the first of them to the commit's offset that are no rows.
        """
        rows: dict[int, set[int]] = {}
        cursors = []
        for index, at in positions.items():
            first = at.dead_from
            assert first is not None
            rows[index] = await self._blocking(partial(self._store.offsets_from, index, first))
            cursors.append(Cursor(index, first, end=at.offset))
        dead: list[tuple[int, Record]] = []
        self._reader.assign(cursors)
        while not self._reader.done:
            for partition, record in await self._reader.poll(_WAIT_MS):
                if record.offset not in rows[partition]:
                    dead.append((partition, record))
        if positions:
            letters = await self._blocking(lambda: [self._dead_letter(*one) for one in dead])
            offsets = {index: at.offset for index, at in positions.items()}
            await self._blocking(lambda: self._store.append_letters(letters, offsets))
            self._log.info("settled dead letters", topic=self._topic.name, dead_letters=len(letters))

    def _dead_letter(self, partition: int, record: Record) -> DeadLetter:
        """With the reason, where the value alone has one."""
        _, letters = split([(partition, record)], Columns({}), self._decode)
        return letters[0] if letters else DeadLetter(partition, record, _DID_NOT_FIT)

    def _lag_seconds(self) -> float:
        since_ms = self._polled_ms if self._oldest_ms is None else self._oldest_ms
        return max(0.0, (self._clock.wall_ms() - since_ms) / 1000)
