"""A controller: follows the log as a standby; while it holds the lease, decides on its newest image, appends,
publishes to followers, then answers.

A decision sees everything decided before it, committed or not; its reply leaves when all that it saw is committed. What
arrives while an append is under way goes out together in the next one. Any doubt about an append (deposed, outcome
unknown) makes the controller resign: nobody gets an answer from its image any more, and it is a standby again, which
reads what the log says. It never repeats an append.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from tailrace.clock import Clock
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.replay import replay
from tailrace.net.metadata.batches import MetadataBatch, encode_snapshot
from tailrace_controller.decide.controller_result import ControllerResult, Decision
from tailrace_controller.decide.election_counts import ElectionCounts
from tailrace_controller.decision import Decided, decided, encoded
from tailrace_controller.deferred_queue import DeferredQueue
from tailrace_controller.election import acceptance
from tailrace_controller.election.acceptance import Seen
from tailrace_controller.election.candidacy import Candidacy
from tailrace_controller.election.held_lease import HeldLease, NoHeartbeats
from tailrace_controller.election.seen_file import SeenFile
from tailrace_controller.election.seen_offsets import SeenOffsets
from tailrace_controller.metadata_log import bootstrap, projection
from tailrace_controller.metadata_log.database import Database
from tailrace_controller.metadata_log.lease_row import NOBODY, Lease
from tailrace_controller.metadata_log.log import MetadataLog
from tailrace_controller.metadata_log.port import MetadataStore
from tailrace_controller.metadata_log.snapshots import Snapshots
from tailrace_controller.metadata_log.stored import (
    ContentRefused,
    Deposed,
    OutcomeUnknown,
    ReplayPosition,
    ReportPart,
    StoredLog,
    StoredSnapshot,
)
from tailrace_controller.signals import ChangeSignal, first_failure

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


R = TypeVar("R")
T = TypeVar("T")
FEW_RECORDS = 200  # are replayed sooner than a thread is there
LEAVE_MS = 500
LOAD_WAIT_MS = 3_000  # whoever asks while the log is loaded, or a renewal is late, need not ask again


async def _at_once(work: Callable[[], T]) -> T:
    return work()


class Restored(Exception):
    """The database ends below what somebody has seen."""


class Controller:
    """Holds the metadata image, and while it is active the lease of one controller epoch at a time."""

    def __init__(
        self,
        config: Config,
        candidacy: Candidacy,
        database: Database,
        clock: Clock,
        random: Random,
        log: "FilteringBoundLogger",
        seen_file: SeenFile | None = None,
    ) -> None:
        self.node_id = candidacy.candidate.node_id
        self.config = config
        self.clock = clock
        self.log = log
        self.image = MetadataImage()
        self.committed = MetadataImage()
        self.followed = MetadataLog(None, (), 0)
        self.epoch = -1
        self.lease: Lease | None = None
        self.activated: Callable[[], None] = lambda: None
        self.counts = ElectionCounts()
        self.resigned: Callable[[], None] = lambda: None
        self.ready = asyncio.Event()
        self.deferred = DeferredQueue()
        self.appends = 0
        self.resignations = 0
        self.snapshots = Snapshots(database, clock, candidacy.append_timeout_ms)
        self._held = HeldLease(clock, candidacy)
        self._candidacy = candidacy
        self._random = random
        self._database = database
        self._seen = SeenOffsets(seen_file)
        self._deciding = asyncio.Lock()  # held while a thread decides: others that write wait
        self._next_long = asyncio.Lock()  # of those that a thread decides: the others go first
        self._grown = asyncio.Event()  # the log did, since a snapshot was thought of
        self._turns = ChangeSignal(clock)  # active, resigned, another lease row
        self._published = ChangeSignal(clock)  # more of the log

    def new_uuid(self) -> UUID:
        """Returns a random UUID (version 4), as topic ids and the cluster id are."""
        return UUID(int=self._random.getrandbits(128), version=4)

    # -- who is active --------------------------------------------------------------------------------------------

    @property
    def refusal(self) -> str:
        """Why this controller decides nothing on its database, "" where it may."""
        return self._seen.refusal

    @property
    def holding(self) -> bool:
        """Whether this controller has the lease, as far as it knows."""
        return self._held.holding

    @property
    def active(self) -> bool:
        """Whether this controller may decide: it holds the lease, and has heard so from the database recently."""
        return self._held.is_fresh

    @property
    def leader(self) -> tuple[int, int, str]:
        """Id, epoch and address of the active controller as far as this one knows; id -1 if there is none."""
        if self.holding:
            return self.node_id, self.epoch, self._candidacy.candidate.address
        lease = self.lease
        if (
            lease is None
            or lease.holder == self.node_id
            or not self._candidacy.judge.is_fresh(self.clock.monotonic_ms())
        ):
            return NOBODY, max(self.epoch, -1 if lease is None else lease.epoch), ""
        return lease.holder, lease.epoch, lease.address

    @property
    def lease_age_ms(self) -> float:
        """Since the database confirmed this controller's lease; -1 on a standby."""
        return self._held.age_ms

    async def until_active(self) -> None:
        """Waits a moment for a log that is loaded or a renewal that is late; NOT_CONTROLLER unless it gets active."""
        until_ms = self.clock.monotonic_ms() + LOAD_WAIT_MS
        while not self.active:
            leader, _, address = self.leader
            if leader not in (NOBODY, self.node_id):
                raise ApiError(ErrorCode.NOT_CONTROLLER, f"controller {leader} at {address} is the active one")
            left_ms = until_ms - self.clock.monotonic_ms()
            if self.refusal or left_ms <= 0:
                raise ApiError(
                    ErrorCode.NOT_CONTROLLER,
                    self.refusal or f"controller {self.node_id} is not active, and no other is",
                )
            await self._turns.next(left_ms)

    async def until_ready(self) -> None:
        """Waits a moment for a log that is being loaded and has its first record; NOT_CONTROLLER if it takes longer."""
        try:
            async with asyncio.timeout(LOAD_WAIT_MS / 1000):
                await self.ready.wait()
        except TimeoutError:
            raise ApiError(ErrorCode.NOT_CONTROLLER, f"controller {self.node_id} has no log yet") from None

    async def check(self, seen: Seen) -> None:
        """Somebody knows the log up to here. NOT_CONTROLLER unless this is so, or may be by the time we have read it.

        What is beyond our log may have been read from another controller before our own COMMIT was answered, or it is
        a successor's, or our database is an older one: the database tells which.
        """
        if (seen.offset <= self.committed.offset and seen.epoch <= self.epoch) or not self.holding:
            return
        self._seen.learn(seen)
        epoch, wanted = self.epoch, self._held.want_renewal()
        while self.holding and self.epoch == epoch and not self._held.is_renewed(wanted):
            await self._turns.next(LOAD_WAIT_MS)
        if not self.holding or self.epoch != epoch:
            raise ApiError(ErrorCode.NOT_CONTROLLER, self.refusal or f"controller {self.node_id} resigned")

    def on_silence(self, why: str) -> bool:
        """Nobody was heard for a session: another controller, if there is one, may be better placed; says if we try.

        It is tried once; if the lease comes back to us unwanted, the silent ones are gone, and not we.
        """
        return self._database.shared and self.active and self._held.give_away(why)

    def on_heartbeat(self) -> None:
        """Somebody speaks to this controller."""
        self._held.on_heartbeat()

    # -- decisions --------------------------------------------------------------------------------------------------

    async def run(self, decide: Decision[R], *, behind: bool = True) -> R:
        """Takes a decision and returns its reply once committed; NOT_CONTROLLER when it cannot be known.

        behind=False lets a decision without records answer at once: its reply may say only what is committed.
        It is taken at once; one that looks at all partitions is run_in_thread's.
        """
        if not self.active:
            await self.until_active()
        made = decided(decide, self.image, self.epoch)
        if made.records and self._deciding.locked():
            made = await self._decide_alone(decide, _at_once)
        elif made.records:
            self._take(made)
        return await self._answer(made, behind=behind)

    async def run_in_thread(self, decide: Decision[R], *, behind: bool = True) -> R:
        """As run, but a thread decides: reads and heartbeats go on meanwhile, and other decisions that write wait."""
        return await self._answer(await self._decide_alone(decide, self._database.in_thread), behind=behind)

    async def run_long(self, decide: Decision[R]) -> R:
        """As run_in_thread, for clients: others that write have their turn before the next decision of this kind."""
        async with self._next_long:
            made = await self._decide_alone(decide, self._database.in_thread)
        return await self._answer(made, behind=True)

    async def _answer(self, made: Decided[R], *, behind: bool) -> R:
        if made.records or behind:
            await self._until_committed(made.after.offset)
        return made.reply

    async def _decide_alone(
        self, decide: Decision[R], do: Callable[[Callable[[], Decided[R]]], Awaitable[Decided[R]]]
    ) -> Decided[R]:
        """Nothing else changes the image from the beginning of the decision to its end."""
        async with self._deciding:
            if not self.active:
                await self.until_active()
            before, epoch = self.image, self.epoch
            made = await do(partial(decided, decide, before, epoch))
            self._check_undisturbed(before, epoch)
            if made.records:
                self._take(made)
            return made

    async def read(self, decide: Callable[[MetadataImage], R]) -> R:
        """What a thread finds in the newest image, once all of that is committed; NOT_CONTROLLER as above.

        It waits first: records that the database then refuses would be shown once others have their offsets.
        """
        if not self.active:
            await self.until_active()
        image = self.image
        await self._until_committed(image.offset)
        return await self._database.in_thread(partial(decide, image))

    def _check_undisturbed(self, before: MetadataImage, epoch: int) -> None:
        """Raises NOT_CONTROLLER if this controller resigned meanwhile: nothing else changes the image."""
        if not self.holding or self.epoch != epoch or self.image is not before:
            raise ApiError(ErrorCode.NOT_CONTROLLER, f"controller {self.node_id} resigned")

    async def _until_committed(self, offset: int) -> None:
        if offset > self.committed.offset:
            await self.deferred.until_committed(offset)

    def _take(self, made: Decided[R]) -> None:
        """The newest image is the one after this decision; REQUEST_TIMED_OUT if too much waits for the database."""
        self.deferred.add(made)
        assert made.before is self.image
        self.image = made.after
        self.counts = self.counts.and_also(made.elections)
        for sentence in made.warnings:
            self.log.warning(sentence)

    async def wait_for(self, offset: int, timeout_ms: float) -> None:
        """Returns when the log reaches beyond offset or the active controller changes, or after the timeout."""
        if self.followed.end_offset <= offset and timeout_ms > 0:
            await self._published.next(timeout_ms)

    # -- the terms ------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Follows the log, and appends what is decided while the lease is ours; forever."""
        while True:
            # Before the lease is taken: standbys of this directory note the new epoch as soon as they read it, and it
            # would be taken for one that another database had given out.
            self._seen.read_notes()
            loaded = await self._candidacy.win(self._position, self._follow)
            try:
                await self._begin(loaded)
                await first_failure(self._append(), self._keep(), self._snapshots())
            except (OutcomeUnknown, Deposed, Restored) as end:
                self._resign(str(end))
            except NoHeartbeats as end:
                self._resign(str(end))
                await self._candidacy.release()

    async def leave(self) -> None:
        """Gives the lease away, once serve() has ended: a successor need not wait."""
        if self.holding:
            self._resign("stopping")
        if self._database.shared and self.lease is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_MS / 1000):
                    await self._candidacy.release()

    def _position(self) -> ReplayPosition:
        return ReplayPosition(self.committed.offset + 1, self.committed.epoch)

    async def _follow(self, loaded: StoredLog) -> None:
        """A standby replays what the log holds beyond its image."""
        self._know(loaded.lease)
        if loaded.diverged:
            await self._leave_word(loaded)
            return
        if loaded.whole or loaded.records:
            await self._replay(loaded)
            await self.snapshots.maybe_trim(self.committed, self.followed)
        if self.image.offset >= 0:
            self.ready.set()
            self._note()

    def _know(self, lease: Lease) -> None:
        changed = self.lease is None or (lease.holder, lease.epoch) != (self.lease.holder, self.lease.epoch)
        self.lease = lease
        self._seen.judge(lease)
        if changed:
            self._turns.wake()
            self._published.wake()

    async def _replay(self, loaded: StoredLog) -> None:
        """The image and the followers' log become those after what was loaded, together; followers are answered on."""
        if loaded.whole:
            self.image, self.followed = await self._replayed(partial(bootstrap.replay, loaded), loaded)
        else:
            self.image, batches = await self._replayed(partial(bootstrap.extend, self.image, loaded), loaded)
            self.followed.append(batches)
        self.committed = self.image
        self._published.wake()

    async def _replayed(self, replay: Callable[[], T], loaded: StoredLog) -> T:
        """A thread replays what may take long."""
        if loaded.snapshot is None and len(loaded.records) <= FEW_RECORDS:
            return replay()
        return await self._database.in_thread(replay)

    async def _leave_word(self, loaded: StoredLog) -> None:
        """Our own image goes beyond this database: its active controller must know, if it does not."""
        seen = Seen(max(self.committed.offset, loaded.next_offset), self.committed.epoch)
        self._seen.learn(seen)
        if loaded.lease.seen_offset < seen.offset:
            self.log.error(acceptance.refusal(loaded.lease, seen))
            await self._database.run(
                lambda opened: opened.witness(seen.offset, seen.epoch), self._candidacy.append_timeout_ms
            )

    async def _begin(self, loaded: StoredLog) -> None:
        """The lease is ours: makes sure that this is the log it was, and is active."""
        before = replace(loaded.lease, epoch=loaded.epoch - 1)
        self.epoch = loaded.epoch
        if loaded.diverged:
            self._seen.learn(Seen(max(self.committed.offset, loaded.next_offset), self.committed.epoch))
        else:
            self._know(loaded.lease)
            await self._replay(loaded)
        if loaded.next_offset:
            self._seen.learn_notes_of(self.committed.cluster_id)
        if acceptance.contradicts(before, self._seen.highest):
            await self._until_accepted(loaded.lease)
        self._held.begin(loaded.asked_ms)
        if self.image.offset < 0:
            first = ControllerResult(None, bootstrap.first_records(self.new_uuid()))
            self._take(decided(lambda _: first, self.image, self.epoch))
        else:
            self._note(at_once=True)
            self.ready.set()
        self.log.info("active", epoch=self.epoch, offset=self.image.offset, cluster_id=self.image.cluster_id)
        self.activated()
        self._turns.wake()
        self._published.wake()

    async def _until_accepted(self, lease: Lease) -> None:
        """Keeps the lease and decides nothing until an operator has given up what this database lacks."""
        said = ""
        while True:
            lease, _ = await self._candidacy.renew(self.epoch, *self._seen.unwritten(lease))
            if self._seen.is_accepted(lease):
                break
            if said != self.refusal:
                said = self.refusal
                self.log.error(said)
            self.ready.set()
            self._turns.wake()
            await self._database.news(self._candidacy.lease_ms / 2)
        await self._accept(lease)

    async def _accept(self, lease: Lease) -> None:
        """Goes on with this database's log, far enough ahead that nothing is given out twice."""
        timeout_ms, timestamp_ms = self._candidacy.append_timeout_ms, self.clock.wall_ms()
        loaded = await self._database.run(lambda opened: opened.follow(ReplayPosition()), timeout_ms)
        image, _ = bootstrap.replay(loaded)
        ahead = acceptance.jump(lease, self._seen.highest)
        records = tuple(acceptance.records(image, ahead.lost))
        # The snapshot holds what was raised: no follower may see an image between.
        after = replay(image, records, ahead.base_offset + len(records) - 1, ahead.epoch)
        snapshot = encode_snapshot(after, timestamp_ms)
        stored = StoredSnapshot(snapshot.end_offset, snapshot.epoch, snapshot.data)
        changes = projection.changes(records, image, after, self.config)
        await self._database.run(lambda opened: opened.restart(lease, stored, timestamp_ms, changes), timeout_ms)
        self.log.warning(
            "accepted an older metadata database", offset=lease.next_offset - 1, lost=self._seen.highest.offset
        )
        self.epoch = ahead.epoch
        loaded = await self._database.run(lambda opened: opened.follow(ReplayPosition()), timeout_ms)
        if loaded.epoch != ahead.epoch:
            raise Deposed(f"controller {loaded.lease.holder} took the lease with epoch {loaded.epoch}")
        self._know(loaded.lease)
        await self._replay(loaded)

    async def _keep(self) -> None:
        """Renews the lease; raises Deposed, OutcomeUnknown, Restored or NoHeartbeats."""
        while True:
            await self._held.until_due()
            lease, asked_ms = await self._held.renew(self.epoch)
            self._know(lease)
            if self.refusal:
                raise Restored(self.refusal)
            self._held.renewed(asked_ms)
            self._turns.wake()

    def _confirmed(self, asked_ms: float) -> None:
        self._held.confirmed(asked_ms)
        self._turns.wake()

    async def _append(self) -> None:
        """Appends until there is doubt: raises Deposed or OutcomeUnknown."""
        while True:
            group = await self.deferred.next_group()
            try:
                await self._append_group(group)
            except ContentRefused:  # nothing of the group was written: which of its decisions it is shows alone
                await self._append_each(group)

    async def _append_group(self, group: list[Decided[object]]) -> None:
        work = partial(self._write, group=group, timestamp_ms=self.clock.wall_ms())
        batches, asked_ms = await self._database.run(work, self._candidacy.append_timeout_ms)
        self._confirmed(asked_ms)
        self._publish(group[-1].after, batches)

    async def _append_each(self, group: list[Decided[object]]) -> None:
        """One transaction for each decision, up to one that cannot be stored: it is as if it had not been taken."""
        for made in group:
            try:
                await self._append_group([made])
            except ContentRefused as refused:
                self.log.error("the metadata database cannot hold a decision", why=str(refused))
                self.image = made.before  # and without those that were taken on top of it
                self.deferred.refuse(made.after.offset, f"the metadata database cannot hold this: {refused}")
                return

    def _write(
        self, opened: MetadataStore, group: list[Decided[object]], timestamp_ms: int
    ) -> tuple[list[MetadataBatch], float]:
        """Runs in the database's thread: one transaction for the whole group."""
        batches, rows = encoded(group, self.epoch, timestamp_ms)
        records = [record for made in group for record in made.records]
        changes = projection.changes(records, group[0].before, group[-1].after, self.config)
        asked_ms = opened.append(self.epoch, rows, changes)
        return batches, asked_ms

    def _publish(self, image: MetadataImage, batches: list[MetadataBatch]) -> None:
        self.committed = image
        self.appends += 1
        self.followed.append(batches)
        self._grown.set()
        self.ready.set()
        self._note()
        self.deferred.committed(image.offset)
        self._published.wake()

    def _note(self, *, at_once: bool = False) -> None:
        epoch = max(self.epoch, -1 if self.lease is None else self.lease.epoch)
        self._seen.note(self.committed, epoch, self.clock.monotonic_ms(), at_once=at_once)

    async def _snapshots(self) -> None:
        """Makes snapshots beside the appends; raises Deposed or OutcomeUnknown."""
        while True:
            self._grown.clear()
            asked_ms = await self.snapshots.maybe_store(self.epoch, self.committed, self.followed)
            if asked_ms is not None:
                self._confirmed(asked_ms)
            await self._grown.wait()

    def _resign(self, reason: str) -> None:
        """Answers nobody from an image that may not be what the log says."""
        self.log.warning("resigned", epoch=self.epoch, why=reason)
        self._held.end()
        self.resignations += 1
        self.image = self.committed
        self.deferred.drop(f"controller {self.node_id} resigned")
        self.resigned()
        self._turns.wake()
        self._published.wake()

    async def report(self, coordinator_id: int, part: ReportPart) -> None:
        """Puts a part of a service's report into the SQL views; a lost one is replaced by the next report."""
        try:
            await self._database.run(
                lambda opened: opened.report(self.epoch, coordinator_id, part),
                self._candidacy.append_timeout_ms,
            )
        except (ContentRefused, Deposed, OutcomeUnknown) as failure:
            self.log.warning("a report for the views was not stored", kind=part.kind, error=str(failure))
