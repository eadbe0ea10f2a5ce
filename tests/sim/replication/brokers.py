"""A simulated broker: the real partitions over a real log on a disk in memory, and a small shell that talks for them.

The shell does what services/broker does around them: it registers and heartbeats, follows the image, gives the
partitions their roles (leading.py, following.py), and writes checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sim.replication.checker import TOPIC, Checker, Replica
from sim.replication.clients import Produce, Read
from sim.replication.controllers import Answer, Controller
from sim.replication.following import ASK_MS, FollowerFetch, Following
from sim.replication.leading import Leading
from sim.replication.network import Network, Reply
from sim.replication.world import Process, World
from tailrace.errors import ErrorCode
from tailrace.log.config import LogConfig
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.filesystem.pending_deletions import remove_paths
from tailrace.log.flush import Flush
from tailrace.log.log import Log
from tailrace.metadata.image import MetadataImage
from tailrace.records.record import Record, build
from tailrace.wire.messages import BrokerHeartbeatRequest, BrokerRegistrationRequest
from tailrace_broker.partitions import cached_image
from tailrace_broker.partitions.node import Node
from tailrace_broker.partitions.partition import Partition

WALL_MS = 1_700_000_000_000


@dataclass(slots=True)
class Settings:
    """Times in milliseconds."""

    replica_lag_time_max_ms: float = 1_000
    heartbeat_ms: float = 500
    fetch_wait_ms: float = 150
    backoff_ms: tuple[float, float] = (10, 80)
    ack_timeout_ms: float = 600
    checkpoint_ms: float = 1_500
    cache_ms: tuple[float, float] = (100, 3_000)  # between writes of the cached image
    flush_share: float = 0.4  # of checkpoints that flush the logs, too
    deletes: bool = False  # looks for segments whose records were deleted, after each checkpoint
    alone_ms: float = 1_000  # without a controller, until what has no other replica is led all the same


class Broker(Process):
    """One broker over all its lives; its disk and its cached image survive."""

    def __init__(
        self,
        world: World,
        broker_id: int,
        network: Network,
        controllers: list[Controller],
        checker: Checker,
        log_config: LogConfig,
    ) -> None:
        super().__init__(world, f"broker {broker_id}")
        self.broker_id = broker_id
        self.network = network
        self.controllers = controllers
        self.checker = checker
        self.log_config = log_config
        self.settings = Settings()
        self.brokers: list[Broker] = []
        self.disk = MemoryFilesystem()
        self.image = self.cached = MetadataImage()
        self.clock_rate = 1.0
        self.wall_skew_ms = 0
        self.partitions: dict[int, Partition] = {}
        self.draining = False
        self.broker_epoch = -1
        self._controller_epoch = -1
        self._controller: Controller | None = None

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Opens the log dir, as it was left, and registers."""
        self.boot()
        random = self.world.random
        self.incarnation_id = UUID(int=random.getrandbits(128))
        self.checker.incarnations[self.broker_id] = self.incarnation_id
        self.disk.heal()
        self.logs = LogDir.open(
            self.disk,
            "/logs",
            node_id=self.broker_id,
            cluster_id="sim",
            now_ms=self.wall_ms(),
            new_id=lambda: UUID(int=random.getrandbits(128)),
        )
        self.node = Node(self.broker_id, self.monotonic_ms, self.settings.replica_lag_time_max_ms)
        self.partitions = {}
        self.broker_epoch = -1
        self.draining = False
        closed_epoch = self.logs.last_shutdown.broker_epoch if self.logs.last_shutdown.clean else -1
        goes_on = cached_image.goes_on(
            self.cached, self.broker_id, closed_epoch, self.logs.last_shutdown.metadata_offset
        )
        self.node.leads_shared = self.node.leads_alone = goes_on
        self.leading, self.following = Leading(self), Following(self)
        self.image = MetadataImage()
        self.say(f"starts ({'clean' if self.logs.last_shutdown.clean else 'unclean'})")
        self._apply(self.cached)
        self._register(closed_epoch)
        self._poll()
        self.after(self.settings.alone_ms, self._lead_alone)
        self.after(random.uniform(0, self.settings.checkpoint_ms), self._checkpoint)
        self.after(random.uniform(0, 100), self._shrink)
        self.after(random.uniform(*self.settings.cache_ms), self._cache)

    def kill(self, *, lose_page_cache: bool) -> None:
        """SIGKILL, or the whole machine goes."""
        self.say("loses power" if lose_page_cache else "is killed")
        self.halt()
        if lose_page_cache:
            self.disk.crash(self.world.random)
            for partition in range(len(self.checker.ledgers)):
                self.checker.lost_power(self.broker_id, partition)
        else:
            self.disk.kill()
        self._drop()

    def stop(self) -> None:
        """A clean shutdown."""
        self.say("shuts down")
        self.disk.heal()
        for index, replica in self.partitions.items():
            if replica.opened is not None:
                self.logs.high_watermarks[TOPIC, index] = replica.high_watermark
        self.logs.close(self.broker_epoch, cached_image.closing_offset(self.image, self.partitions.values()))
        if self.world.chance(0.8):  # else its disk is full
            self.cached = self.image
        self.halt()
        self._drop()

    def _drop(self) -> None:
        self.partitions = {}
        self.disk.kill()

    def tear(self) -> None:
        """The kill came in the middle of a write: one log ends with a part of a batch."""
        random = self.world.random
        places = [place for place in self.disk.list("/logs") if place.startswith(f"{TOPIC}-")]
        if not places:
            return
        directory = f"/logs/{random.choice(sorted(places))}"
        names = [name for name in self.disk.list(directory) if name.endswith(".log")]
        if not names:
            return
        name = max(names)
        content = self.disk.content(f"{directory}/{name}")
        batch = build([Record(timestamp=WALL_MS, value=random.randbytes(20))])
        content += batch[: random.randrange(1, len(batch))]

    def monotonic_ms(self) -> float:
        return self.world.now_ms * self.clock_rate

    def wall_ms(self) -> int:
        return WALL_MS + int(self.world.now_ms) + self.wall_skew_ms

    # -- the controller ----------------------------------------------------------------------------------------------

    def ask(self, handler: Callable[[Controller], Callable[[Any, Reply], None]], request: Any, answer: Reply) -> None:
        """Asks the controller that is believed to be active; None for no answer, an old one or not a controller's."""
        controller = self._controller or self.world.random.choice(self.controllers)
        self._controller = controller

        def answered(outcome: Answer | None) -> None:
            seen = max(self._controller_epoch, self.image.epoch)
            if outcome is None or outcome.error == ErrorCode.NOT_CONTROLLER or outcome.epoch < seen:
                self._controller = None
                answer(None)
                return
            self._controller_epoch = outcome.epoch
            answer(outcome)

        self.network.call(self, controller, handler(controller), request, answered, ASK_MS)

    def _register(self, previous_epoch: int) -> None:
        request = BrokerRegistrationRequest(
            broker_id=self.broker_id,
            cluster_id="sim",
            incarnation_id=self.incarnation_id,
            listeners=[],
            features=[],
            rack=None,
            log_dirs=[],
            previous_broker_epoch=previous_epoch,
        )

        def registered(answer: Answer | None) -> None:
            if answer is None or answer.error:
                self.after(self.backoff_ms(), self._register, previous_epoch)
                return
            self.broker_epoch = self.node.broker_epoch = answer.body.broker_epoch
            self.say(f"has broker epoch {self.broker_epoch}")
            self._settle()
            self._beat()

        self.ask(lambda controller: controller.on_register, request, registered)

    def _lead_alone(self) -> None:
        """The data plane goes on without a controller."""
        if self.broker_epoch < 0 and not self.node.leads_alone:
            self.say("reaches no controller")
            self.node.leads_alone = True
            for index in range(len(self.checker.ledgers)):
                self.checker.leads_alone(self.broker_id, index)
            self._settle()

    def _beat(self) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self.image.offset,
            want_fence=False,
            want_shut_down=self.draining,
        )
        self.ask(lambda controller: controller.on_heartbeat, request, self._beaten)

    def _beaten(self, answer: Answer | None) -> None:
        if answer is None:
            self.after(self.backoff_ms(), self._beat)
        elif answer.error in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            self.say(f"registers again: {answer.error.name}")
            self._register(self.broker_epoch)
        elif not answer.error and self.draining and answer.body.should_shut_down:
            self.stop()
        else:
            fenced = bool(answer.error) or answer.body.is_fenced or self.draining
            self.after(50 if fenced else self.settings.heartbeat_ms, self._beat)

    def backoff_ms(self) -> float:
        return self.world.random.uniform(*self.settings.backoff_ms)

    def _poll(self) -> None:
        """Follows the metadata log of any controller."""
        controller = self.world.random.choice(self.controllers)
        offset = self.image.offset

        def polled(answer: Answer | None) -> None:
            if answer is not None and not answer.error and answer.body.offset > self.image.offset:
                self._apply(answer.body)
            self.after(self.backoff_ms() if answer is None or answer.error else 0.0, self._poll)

        self.network.call(self, controller, lambda at, reply: controller.poll(at, reply), offset, polled, 700)

    # -- the image ---------------------------------------------------------------------------------------------------

    def _apply(self, image: MetadataImage) -> None:
        self.image = image
        self.node.brokers = image.brokers
        self._settle()

    def _settle(self) -> None:
        """Takes up the roles; those of a leader, after an unclean start, not before the image knows this life."""
        mine = self.image.brokers.get(self.broker_id)
        if mine is not None and mine.broker_epoch == self.broker_epoch:
            self.node.leads_shared = self.node.leads_alone = True
        topic = self.image.topic(TOPIC)
        for index, state in enumerate(topic.partitions if topic is not None else ()):
            if self.broker_id not in state.replicas:
                self._give_up(index)
                continue
            replica = self.partitions.get(index)
            if replica is None:
                replica = self.partitions[index] = self._new(index, topic.topic_id)  # type: ignore[union-attr]
            held = state.leader == self.broker_id and not self.node.may_lead(state.replicas)
            try:
                moved = replica.apply(replace(state, leader=-1) if held else state)
                _ = replica.log
            except OSError as failed:
                self.say(f"cannot open {TOPIC}-{index}: {failed}")
                self.after(self.backoff_ms(), self._settle)
                continue
            if held:
                replica.partition_epoch = -1
            if moved:
                role = "leads" if replica.leader == self.broker_id else f"follows {replica.leader} in"
                self.say(f"{role} {TOPIC}-{index}, epoch {state.leader_epoch}, ISR {state.isr}")
                self.leading.refuse_waiters(index)
            self.leading.moved(index)
            if replica.following:
                self.following.begin(index)

    def _give_up(self, index: int) -> None:
        """The partition moved away: its log goes."""
        if self.partitions.pop(index, None) is not None:
            self.say(f"has no replica of {TOPIC}-{index} any more")
            self.leading.refuse_waiters(index)
            self.logs.delete(TOPIC, index, self.wall_ms())
            self.checker.mirrors.pop(Replica(self.broker_id, index), None)

    def _new(self, index: int, topic_id: UUID) -> Partition:
        place = (TOPIC, index)

        def open_log() -> Log:
            log = self.logs.create(TOPIC, index, topic_id, self.log_config)
            self.checker.opened(self.broker_id, index, log)
            return log

        return Partition(TOPIC, topic_id, index, open_log, self.node, lambda: self.logs.high_watermarks.get(place, 0))

    # -- requests ----------------------------------------------------------------------------------------------------

    def on_follower_fetch(self, request: FollowerFetch, reply: Reply) -> None:
        """Fetch by a follower."""
        self.leading.on_follower_fetch(request, reply)

    def on_produce(self, request: Produce, reply: Reply) -> None:
        """Produce."""
        self.leading.on_produce(request, reply)

    def on_read(self, request: Read, reply: Reply) -> None:
        """Fetch by a consumer."""
        self.leading.on_read(request, reply)

    def on_end_offset(self, request: Read, reply: Reply) -> None:
        """ListOffsets."""
        self.leading.on_end_offset(request, reply)

    def delete_records(self, index: int, offset: int) -> None:
        """DeleteRecords, of the leader."""
        self.leading.delete_records(index, offset)

    def on_metadata(self, partition: int, reply: Reply) -> None:
        """(leader, leader epoch) as this broker's image has it."""
        state = self.image.partition(TOPIC, partition)
        reply((-1, -1) if state is None else (state.leader, state.leader_epoch))

    def led(self, index: int) -> Partition | None:
        """The partition if this broker leads it."""
        replica = self.partitions.get(index)
        leads = replica is not None and replica.leader == self.broker_id and replica.opened is not None
        return replica if leads else None

    def show(self) -> None:
        """What is told next rests on what the checker must have seen."""
        self.checker.look(self.broker_id, self.partitions)

    # -- upkeep ------------------------------------------------------------------------------------------------------

    def _shrink(self) -> None:
        for index in list(self.partitions):
            self.leading.moved(index)
        self.after(self.settings.replica_lag_time_max_ms / 2, self._shrink)

    def _flush(self, log: Log) -> None:
        """An fsync in a thread: the log goes on, and may be cut, between its begin, its sync and its end."""
        begun = log.begin_flush(self.wall_ms(), everything=True)
        if begun is not None:
            self.after(self.world.random.uniform(0, 100), self._synced, log, begun)

    def _synced(self, log: Log, begun: Flush) -> None:
        if any(replica.opened is log for replica in self.partitions.values()):  # it may have moved away meanwhile
            try:
                begun.run()
            except OSError as failed:
                self.say(f"a flush failed: {failed}")
                return
            self.after(self.world.random.uniform(0, 100), log.finish_flush, begun)

    def _cache(self) -> None:
        self.cached = self.image
        self.after(self.world.random.uniform(*self.settings.cache_ms), self._cache)

    def _checkpoint(self) -> None:
        flushes = self.world.chance(self.settings.flush_share)
        try:
            for index, replica in self.partitions.items():
                if replica.opened is not None:
                    if flushes:
                        self._flush(replica.log)
                    self.logs.high_watermarks[TOPIC, index] = replica.high_watermark
            self.logs.checkpoint()
            if self.settings.deletes:
                self.logs.retention.apply(self.wall_ms())
                remove_paths(self.logs.guard, self.logs.pending_deletions.due(self.wall_ms()))
        except OSError as failed:
            self.say(f"housekeeping failed: {failed}")
        self.after(self.settings.checkpoint_ms, self._checkpoint)
