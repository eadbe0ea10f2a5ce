"""The active controller: decides on its newest image, appends, publishes to followers, then answers.

A decision sees everything decided before it, committed or not; its reply leaves when all that it saw is committed. What
arrives while an append is under way goes out together in the next one. Any doubt about an append (deposed, outcome
unknown) makes the controller resign: nobody gets an answer from its image any more, and the log is loaded again.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from tailrace.clock import Clock
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata import codec
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import MetadataRecord
from tailrace.net.backoff import Backoff
from tailrace.net.metadata_batches import Batch, Snapshot, encode_batch, encode_snapshot
from tailrace_controller import bootstrap, projection
from tailrace_controller.database import Database
from tailrace_controller.decide import resources
from tailrace_controller.effects import Effects
from tailrace_controller.log import MetadataLog
from tailrace_controller.stored import Deposed, OutcomeUnknown, StoredRecord, StoredSnapshot

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from tailrace_controller.store import Store

R = TypeVar("R")
PENDING_RECORDS_MAX = 100_000
RECORDS_BETWEEN_SNAPSHOTS = 5_000
LOAD_WAIT_MS = 3_000  # whoever asks while the log is loaded need not ask again


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision's records with the images around them, on their way to the database."""

    records: tuple[MetadataRecord, ...]
    before: MetadataImage
    after: MetadataImage


class Controller:
    """Holds the metadata image of one controller epoch at a time."""

    def __init__(
        self,
        node_id: int,
        config: Config,
        database: Database,
        clock: Clock,
        random: Random,
        log: "FilteringBoundLogger",
    ) -> None:
        self.node_id = node_id
        self.config = config
        self.clock = clock
        self.log = log
        self.image = MetadataImage()
        self.committed = MetadataImage()
        self.followed = MetadataLog(None, (), 0)
        self.epoch = -1
        self.deposed = False
        self.activated: Callable[[], None] = lambda: None
        self.ready = asyncio.Event()
        self.records_between_snapshots = RECORDS_BETWEEN_SNAPSHOTS
        self.pending_records_max = PENDING_RECORDS_MAX
        self.pending_records = 0
        self.appends = 0
        self.resignations = 0
        self._active = asyncio.Event()
        self._random = random
        self._database = database
        self._pending: deque[Decided] = deque()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._published: asyncio.Future[None] | None = None
        self._wake = asyncio.Event()
        self._backoff = Backoff(clock, random)

    def new_uuid(self) -> UUID:
        """Returns a random UUID (version 4), as topic ids and the cluster id are."""
        return UUID(int=self._random.getrandbits(128), version=4)

    @property
    def active(self) -> bool:
        """Whether this controller may decide."""
        return self._active.is_set()

    async def until_active(self) -> None:
        """Waits a moment for a log that is being loaded; NOT_CONTROLLER if this one does not become active."""
        if not self.active and not self.deposed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOAD_WAIT_MS / 1000):
                    await self._active.wait()
        if not self.active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, f"controller {self.node_id} is not active")

    async def run(self, decide: Callable[[MetadataImage], Effects[R]], *, behind: bool = True) -> R:
        """Takes a decision and returns its reply once committed; NOT_CONTROLLER when it cannot be known.

        behind=False lets a decision without records answer at once: its reply may say only what is committed.
        """
        if not self.active:
            await self.until_active()
        effects = decide(self.image)
        if effects.records:
            self._enqueue(effects.records)
            for sentence in resources.without_effect(effects.records):
                self.log.warning(sentence)
        elif not behind:
            return effects.reply
        if self.image.offset > self.committed.offset:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((self.image.offset, future))
            await future
        return effects.reply

    def _enqueue(self, records: tuple[MetadataRecord, ...]) -> None:
        if self.pending_records > self.pending_records_max:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "the metadata database does not take writes at present")
        before = self.image
        self.image = before.replay(records, before.offset + len(records), self.epoch)
        self._pending.append(Decided(records, before, self.image))
        self.pending_records += len(records)
        self._wake.set()

    async def wait_for(self, offset: int, timeout_ms: float) -> None:
        """Returns when the log reaches beyond offset, or after the timeout."""
        if self.followed.end_offset > offset or timeout_ms <= 0:
            return
        loop = asyncio.get_running_loop()
        if self._published is None:
            self._published = loop.create_future()
        published = self._published
        late: asyncio.Future[None] = loop.create_future()
        timer = self.clock.call_later(timeout_ms, lambda: _release(late))
        try:
            await asyncio.wait((published, late), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    async def serve(self) -> None:
        """Loads the log, then appends what is decided; returns when another controller has taken over."""
        while True:
            await self._load()
            try:
                await self._append()
            except OutcomeUnknown as doubt:
                self._resign(str(doubt))
            except Deposed as successor:
                self.deposed = True
                self._resign(str(successor))
                return

    async def _load(self) -> None:
        said = ""
        while True:
            try:
                loaded = await self._database.run(lambda opened: opened.load(self.node_id))
                break
            except OutcomeUnknown as failure:
                if str(failure) != said:  # once, not at every attempt
                    said = str(failure)
                    self.log.warning("the metadata database cannot be used", error=said)
                await self._backoff.wait()
        self._backoff.reset()
        self.image, self.followed = bootstrap.replay(loaded)
        self.committed = self.image
        self.epoch = loaded.epoch
        self._active.set()
        if self.image.offset < 0:
            self._enqueue(bootstrap.first_records(self.new_uuid()))
        else:
            self.ready.set()
        self.log.info("active", epoch=self.epoch, offset=self.image.offset, cluster_id=self.image.cluster_id)
        self.activated()

    async def _append(self) -> None:
        """Appends until there is doubt: raises Deposed or OutcomeUnknown."""
        while True:
            while not self._pending:
                self._wake.clear()
                await self._wake.wait()
            group = list(self._pending)
            self._pending.clear()
            self.pending_records = 0
            timestamp_ms = self.clock.wall_ms()
            batches = await self._database.run(partial(self._write, group=group, timestamp_ms=timestamp_ms))
            self._publish(group[-1].after, batches)
            await self._maybe_snapshot()

    def _write(self, opened: "Store", group: list[Decided], timestamp_ms: int) -> list[Batch]:
        """Runs in the database's thread: one transaction for the whole group."""
        batches, rows = [], []
        for decided in group:
            base_offset = decided.before.offset + 1
            values = [codec.encode(record) for record in decided.records]
            batches.append(encode_batch(values, base_offset, self.epoch, timestamp_ms))
            rows += [
                StoredRecord(base_offset + index, base_offset, self.epoch, timestamp_ms, type(record).__name__, value)
                for index, (record, value) in enumerate(zip(decided.records, values, strict=True))
            ]
        records = [record for decided in group for record in decided.records]
        opened.append(self.epoch, rows, projection.changes(records, group[0].before, group[-1].after, self.config))
        return batches

    def _publish(self, image: MetadataImage, batches: list[Batch]) -> None:
        self.committed = image
        self.appends += 1
        self.followed.append(batches)
        self.ready.set()
        while self._waiting and self._waiting[0][0] <= image.offset:
            _, future = self._waiting.popleft()
            _release(future)
        self._wake_followers()

    def _wake_followers(self) -> None:
        published, self._published = self._published, None
        if published is not None:
            _release(published)

    async def _maybe_snapshot(self) -> None:
        present = self.followed.snapshot
        covered = 0 if present is None else present.end_offset
        if self.committed.offset + 1 - covered < self.records_between_snapshots:
            return
        image, timestamp_ms = self.committed, self.clock.wall_ms()

        def take(opened: "Store") -> Snapshot:
            snapshot = encode_snapshot(image, timestamp_ms)
            stored = StoredSnapshot(snapshot.end_offset, snapshot.epoch, snapshot.data)
            opened.snapshot(self.epoch, stored, timestamp_ms, keep_from=covered)
            return snapshot

        self.followed.take_snapshot(await self._database.run(take), keep_from=covered)

    def _resign(self, reason: str) -> None:
        """Answers nobody from an image that may not be what the log says."""
        self.log.warning("resigned", epoch=self.epoch, why=reason)
        self._active.clear()
        self.resignations += 1
        self._pending.clear()
        self.pending_records = 0
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            if not future.done():
                future.set_exception(ApiError(ErrorCode.NOT_CONTROLLER, f"controller {self.node_id} resigned"))
        self._wake_followers()

    async def report(self, coordinator_id: int, groups: Any, offsets: Any) -> None:
        """Puts a coordinator's report into the SQL views; a lost one is replaced by the next."""
        try:
            await self._database.run(lambda opened: opened.report(self.epoch, coordinator_id, groups, offsets))
        except (Deposed, OutcomeUnknown) as failure:
            self.log.warning("a coordinator's report was not stored", error=str(failure))


def _release(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
