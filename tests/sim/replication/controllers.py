"""Controllers over one database: the real decisions, appended under the epoch of a lease; deposed ones write in vain.

The database is the truth: `database.image` is the cluster's metadata. A controller decides on its newest image, appends
group after group, publishes what is committed and then answers, as tailrace_controller.controller does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sim.replication.network import Reply
from sim.replication.world import Process, World
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import MetadataRecord
from tailrace.metadata.replay import replay
from tailrace_controller.decide import alter_partition, brokers
from tailrace_controller.decide.controller_result import ControllerResult
from tailrace_controller.sessions.liveness import Sessions

BROKER = "broker"
SETTLE_MS = 500
STALL_MS = 500


@dataclass(frozen=True, slots=True)
class Batch:
    """What one decision appended and the image after it."""

    records: tuple[MetadataRecord, ...]
    image: MetadataImage


@dataclass(slots=True)
class Answer:
    """Any answer of a controller, with its epoch: who has seen a higher one ignores it."""

    epoch: int
    body: Any = None
    error: ErrorCode = ErrorCode.NONE


class Database:
    """The metadata log and its lease row. An append checks the epoch and the end it goes behind."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.epoch = 0
        self.holder: str | None = None
        self.batches: list[Batch] = []
        self.image = MetadataImage()
        self.on_commit: Callable[[MetadataImage, MetadataImage], None] = lambda _old, _new: None

    def take_lease(self, holder: str) -> int:
        """Makes holder the one that may append, under a new epoch."""
        self.epoch += 1
        self.holder = holder
        return self.epoch

    def append(self, epoch: int, group: list[Batch]) -> bool:
        """Appends in one transaction; False if another controller has taken over."""
        if epoch != self.epoch:
            return False
        for batch in group:
            assert batch.image.offset == self.image.offset + len(batch.records), "a gap in the metadata log"
            old, self.image = self.image, batch.image
            self.batches.append(batch)
            self.on_commit(old, self.image)
        return True


@dataclass(slots=True)
class _Waiting:
    offset: int
    reply: Reply
    body: Any


@dataclass(slots=True)
class _Poll:
    offset: int
    reply: Reply
    done: bool = False


@dataclass(slots=True)
class Settings:
    """Times in milliseconds."""

    session_timeout_ms: float = 1_200
    lease_ms: float = 800
    commit_ms: tuple[float, float] = (0.5, 4.0)
    poll_ms: float = 400
    lost_commits: float = 0.0


class Controller(Process):
    """One controller; active between taking the lease and any doubt about an append."""

    def __init__(self, world: World, name: str, database: Database, settings: Settings, config: Config) -> None:
        super().__init__(world, name)
        self.database = database
        self.settings = settings
        self.config = config
        self.reachable = True  # whether this controller reaches the database
        self._reset()

    def _reset(self) -> None:
        self.active = False
        self.epoch = -1
        self.image = MetadataImage()
        self.committed = MetadataImage()
        self.sessions = Sessions(self.settings.session_timeout_ms)
        self._pending: list[Batch] = []
        self._writing = False
        self._waiting: list[_Waiting] = []
        self._polls: list[_Poll] = []
        self._watched_ms = self.world.now_ms

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Comes up as a standby."""
        self.boot()
        self._reset()
        self.after(self.world.random.uniform(10, 50), self._refresh)

    def kill(self) -> None:
        """Dies; what is under way to the database may still be committed."""
        self.halt()
        self.active = False

    def activate(self) -> None:
        """Takes the lease and loads the log."""
        self._reset()
        self.epoch = self.database.take_lease(self.name)
        self.image = self.committed = self.database.image
        self.active = True
        self.say(f"active with epoch {self.epoch} at offset {self.image.offset}")
        self._load()
        self._watch(self.epoch)
        self._renew(self.epoch)

    def _load(self) -> None:
        live = [(BROKER, b.broker_id, b.broker_epoch) for b in self.image.live_brokers()]
        self.sessions.keep(live, self.world.now_ms)
        self.after(SETTLE_MS, self.periodic)

    def _resign(self, why: str) -> None:
        self.say(f"resigns: {why}")
        waiting, polls = self._waiting, self._polls
        epoch = self.epoch
        self._reset()
        for parked in waiting:
            parked.reply(Answer(epoch, error=ErrorCode.NOT_CONTROLLER))
        for poll in polls:
            poll.reply(Answer(epoch, error=ErrorCode.NOT_CONTROLLER))
        self._refresh()

    def _renew(self, epoch: int) -> None:
        """Renews the lease; who finds another's name in it has been deposed."""
        if not self.active or self.epoch != epoch:
            return
        if self.reachable and self.database.epoch != epoch:
            self._resign("another controller has the lease")
            return
        self.after(self.settings.lease_ms / 3, self._renew, epoch)

    def _refresh(self) -> None:
        """A standby reads the log behind the database."""
        if self.active:
            return
        if self.reachable:
            self.committed = self.database.image
            self._publish()
        self.after(100, self._refresh)

    # -- decisions ---------------------------------------------------------------------------------------------------

    def decide(
        self, decide: Callable[[MetadataImage], ControllerResult[Any]], reply: Reply, *, behind: bool = True
    ) -> None:
        """Takes a decision; the reply leaves when all that it saw is committed."""
        if not self.active:
            reply(Answer(self.epoch, error=ErrorCode.NOT_CONTROLLER))
            return
        try:
            effects = decide(self.image)
        except ApiError as refused:
            reply(Answer(self.epoch, error=refused.code))
            return
        if effects.records:
            self.image = replay(self.image, effects.records, self.image.offset + len(effects.records), self.epoch)
            self._pending.append(Batch(effects.records, self.image))
            self._write()
        elif not behind:
            reply(Answer(self.epoch, effects.reply))
            return
        self._park(reply, effects.reply)

    def _park(self, reply: Reply, body: Any) -> None:
        if self.image.offset == self.committed.offset:
            reply(_answer(self.epoch, body))
        else:
            self._waiting.append(_Waiting(self.image.offset, reply, body))

    def _write(self) -> None:
        if self._writing or not self._pending:
            return
        group, self._pending = self._pending, []
        self._writing = True
        random, settings = self.world.random, self.settings
        delay_ms = random.uniform(*settings.commit_ms)
        doubt = random.random() < settings.lost_commits
        # The transaction goes on without this process: it may be dead or stopped when it commits.
        self.world.after(delay_ms, self._transact, self.life, self.epoch, group, doubt)

    def _transact(self, life: int, epoch: int, group: list[Batch], doubt: bool) -> None:
        if not self.reachable:
            self.world.schedule(0, self, life, self._written, (epoch, group, None))
            return
        done = self.database.append(epoch, group)
        if not done:
            self.say(f"an append of epoch {epoch} was refused")
        self.world.schedule(0.5, self, life, self._written, (epoch, group, None if doubt else done))

    def _written(self, epoch: int, group: list[Batch], done: bool | None) -> None:
        if epoch != self.epoch or not self.active:
            return
        self._writing = False
        if done is None:
            self._resign("the outcome of a commit is unknown")
            return
        if not done:
            self._resign("another controller has taken over")
            return
        self.committed = group[-1].image
        while self._waiting and self._waiting[0].offset <= self.committed.offset:
            parked = self._waiting.pop(0)
            parked.reply(_answer(self.epoch, parked.body))
        self._publish()
        self._write()

    # -- followers of metadata ---------------------------------------------------------------------------------------

    def poll(self, offset: int, reply: Reply) -> None:
        """Answers with the image when it is beyond offset, or after a while."""
        if self.committed.offset > offset:
            reply(Answer(self.committed.epoch, self.committed))
            return
        parked = _Poll(offset, reply)
        self._polls.append(parked)
        self.after(self.settings.poll_ms, self._give_up, parked)

    def _give_up(self, parked: _Poll) -> None:
        if not parked.done:
            parked.done = True
            parked.reply(Answer(self.committed.epoch, self.committed))

    def _publish(self) -> None:
        polls, self._polls = self._polls, []
        for parked in polls:
            if not parked.done and self.committed.offset > parked.offset:
                self._give_up(parked)
            elif not parked.done:
                self._polls.append(parked)

    # -- liveness ----------------------------------------------------------------------------------------------------

    def _watch(self, epoch: int) -> None:
        """Fences brokers that were silent for a whole session."""
        if not self.active or self.epoch != epoch:
            return
        now_ms = self.world.now_ms
        if now_ms - self._watched_ms > STALL_MS:
            self.sessions.prolong(now_ms)
        self._watched_ms = now_ms
        for key in self.sessions.overdue(now_ms):
            self.expire(key[1], key[2], "silent for the session timeout")
        self.after(100, self._watch, epoch)

    def expire(self, broker_id: int, broker_epoch: int, why: str) -> None:
        """Fences a broker unless it registered anew."""
        self.sessions.end((BROKER, broker_id, broker_epoch))

        def done(answer: Answer) -> None:
            if answer.body:
                self.say(f"fenced broker {broker_id} ({why})")

        self.decide(lambda image: brokers.expire(image, broker_id, broker_epoch, self.config), done)

    def on_connection_refused(self, broker_id: int) -> None:
        """The broker's heartbeat connection broke and nobody listens at its address any more."""
        broker = self.image.brokers.get(broker_id)
        if self.active and broker is not None:
            self.expire(broker_id, broker.broker_epoch, "its connection broke and its listener refuses")

    def periodic(self) -> None:
        """What the controller does on its own now and then; simulation.py may add to it."""

    # -- requests ----------------------------------------------------------------------------------------------------

    def on_register(self, request: Any, reply: Reply) -> None:
        """BrokerRegistration."""

        def done(answer: Answer) -> None:
            if not answer.error:
                key = (BROKER, request.broker_id, answer.body.broker_epoch)
                self.sessions.touch(key, request, self.world.now_ms)
            reply(answer)

        self.decide(lambda image: brokers.register(image, request, self.config, is_connected=False), done)

    def on_heartbeat(self, request: Any, reply: Reply) -> None:
        """BrokerHeartbeat."""

        def done(answer: Answer) -> None:
            if not answer.error:
                key = (BROKER, request.broker_id, request.broker_epoch)
                self.sessions.touch(key, request, self.world.now_ms)
            reply(answer)

        committed = self.committed
        self.decide(lambda image: brokers.heartbeat(image, committed, request, self.config), done, behind=False)

    def on_alter_partition(self, request: Any, reply: Reply) -> None:
        """AlterPartition v3."""
        self.decide(lambda image: alter_partition.alter(image, request, 3, self.config), reply)


def _answer(epoch: int, body: Any) -> Answer:
    return Answer(epoch, error=body) if isinstance(body, ErrorCode) else Answer(epoch, body)
