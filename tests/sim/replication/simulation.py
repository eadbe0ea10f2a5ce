"""One world: a cluster, its clients, its faults, and what must be true in the end. The seed decides everything."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any
from uuid import UUID

from sim.replication import operations
from sim.replication.brokers import Broker
from sim.replication.brokers import Settings as BrokerSettings
from sim.replication.checker import TOPIC, Checker, Violation
from sim.replication.clients import Consumer, Producer
from sim.replication.controllers import Controller, Database
from sim.replication.controllers import Settings as ControllerSettings
from sim.replication.ending import check_end, unsettled
from sim.replication.faults import Faults
from sim.replication.idempotent import IdempotentProducer
from sim.replication.network import Network
from sim.replication.profiles import PROFILES
from sim.replication.world import STORY_LINES, WHOLE_STORY, Process, World
from tailrace.config import Config
from tailrace.log.config import LogConfig
from tailrace.metadata.records import (
    ClusterRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
)
from tailrace.records.batch import split
from tailrace.records.record import iterate
from tailrace_controller.decide.controller_result import ControllerResult

TOPIC_ID = UUID(int=7)
FAULTS_MS = 6_000
SETTLE_MS = 25_000
LEASE_CHECK_MS = 100


@dataclass(frozen=True)
class Outcome:
    """What one world came to; failure is None where every promise was kept."""

    seed: int
    profile: str
    failure: str | None
    story: str
    events: int
    faults: int
    acknowledged: int
    elections: int
    unclean_elections: int


class Cluster:
    """Everything that runs, and what the world does for it."""

    def __init__(self, seed: int, profile: str) -> None:
        self.world = world = World(seed)
        random = world.random
        self.profile = PROFILES[profile]
        self.partitions = random.choice((2, 3) if self.profile.idempotent else (1, 1, 2))
        brokers = random.choice((3, 3, 4))
        self.replication_factor = random.choice((2, 3, 3, 3))
        self.min_isr = random.choice((2, 2, 2, 3)) if self.profile.unclean_budget else random.choice((1, 2, 2, 2, 3))
        self.min_isr = min(self.min_isr, self.replication_factor)
        self.network = Network(world)
        self.config = Config({})
        self.database = Database(world)
        self.checker = Checker(world, self.partitions, self.min_isr)
        self.checker.trusts_last_leader = not self.profile.unclean_elections
        self.database.on_commit = self.checker.committed
        settings = ControllerSettings(lost_commits=random.choice((0.0, 0.0, 0.01)))
        self.controllers = [
            Controller(world, f"controller {n}", self.database, settings, self.config) for n in range(2)
        ]
        log = LogConfig(
            segment_bytes=random.choice((700, 2_000, 20_000)),
            index_interval_bytes=200,
            message_timestamp_after_max_ms=2**62,
            min_insync_replicas=self.min_isr,
            retention_ms=-1,
            file_delete_delay_ms=500,
        )
        self.brokers = [Broker(world, n, self.network, self.controllers, self.checker, log) for n in range(brokers)]
        broker_settings = BrokerSettings(deletes=self.profile.deletes)
        for broker in self.brokers:
            broker.settings = broker_settings
            broker.brokers = self.brokers
            broker.clock_rate = random.uniform(0.8, 1.25)
            broker.wall_skew_ms = random.randrange(-5_000, 5_000)
        self.producers: list[Producer] = []
        self.idempotent: list[IdempotentProducer] = []
        self.consumers: list[Consumer] = []
        self.faults = Faults(self)
        self._vacant_ms = 0.0
        world.check = self._check

    def _check(self, process: Process | None) -> None:
        if isinstance(process, Broker) and process.up:
            self.checker.look(process.broker_id, process.partitions)

    # -- beginning ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Boots everything; the topic is made once all brokers live."""
        for controller in self.controllers:
            controller.start()
        self.controllers[0].activate()
        first = (
            ClusterRecord("sim"),
            FeatureLevelRecord("metadata.version", 25),
            FeatureLevelRecord("eligible.leader.replicas.version", 1),
        )
        self.controllers[0].decide(lambda _image: ControllerResult(None, first), lambda _answer: None)
        for broker in self.brokers:
            broker.start()
        self.world.after(LEASE_CHECK_MS, self._watch_lease)
        self.world.after(20, self._make_topic)

    def _make_topic(self) -> None:
        active = self.active()
        if active is None or sum(1 for _ in self.database.image.live_brokers()) < len(self.brokers):
            self.world.after(20, self._make_topic)
            return
        count = len(self.brokers)
        records: list[MetadataRecord] = [TopicRecord(TOPIC, TOPIC_ID)]
        for index in range(self.partitions):
            replicas = tuple((index + step) % count for step in range(self.replication_factor))
            records.append(PartitionRecord(index, TOPIC_ID, replicas, replicas, replicas[0]))
        records.append(ConfigRecord(2, TOPIC, "min.insync.replicas", str(self.min_isr)))
        if self.profile.unclean_elections:
            records.append(ConfigRecord(2, TOPIC, "unclean.leader.election.enable", "true"))
        active.decide(lambda _image: ControllerResult(None, tuple(records)), lambda _answer: None)
        self.world.after(50, self._make_clients)

    def _make_clients(self) -> None:
        random = self.world.random
        for index in range(self.partitions):
            for number, (acks, idempotent, window) in enumerate(
                ((-1, True, random.choice((1, 3, 5))), (-1, False, random.choice((1, 1, 3))), (1, False, 1))
            ):
                name = f"p{index}{number}"
                producer = Producer(self.world, name, self.network, self.brokers, index, self.checker)
                producer.acks, producer.idempotent, producer.window = acks, idempotent, window
                if self.profile.deletes:
                    producer.window = 1  # a log that begins where another's does now has not heard of its producers
                producer.start(10 * index + number)
                self.producers.append(producer)
            for number in range(2):
                consumer = Consumer(self.world, f"c{index}{number}", self.network, self.brokers, index, self.checker)
                consumer.follows = number == 1
                consumer.start()
                self.consumers.append(consumer)
        for number in range(2 if self.profile.idempotent else 0):
            kept = IdempotentProducer(self.world, f"q{number}", self.network, self.brokers, self.checker)
            kept.start(number)
            self.idempotent.append(kept)
        self.faults.start()

    # -- the lease of the controllers ----------------------------------------------------------------------------------

    def active(self) -> Controller | None:
        """The controller that holds the lease."""
        holder = next((c for c in self.controllers if c.name == self.database.holder), None)
        return holder if holder is not None and holder.active else None

    def _watch_lease(self) -> None:
        active = self.active()
        if active is not None and active.up and not active.paused and active.reachable:
            self._vacant_ms = 0.0
        else:
            self._vacant_ms += LEASE_CHECK_MS
            able = [c for c in self.controllers if c.up and not c.paused and c.reachable]
            if self._vacant_ms >= self.controllers[0].settings.lease_ms and able:
                self._vacant_ms = 0.0
                self.world.random.choice(able).activate()
        self.world.after(LEASE_CHECK_MS, self._watch_lease)

    # -- what faults and the end ask ---------------------------------------------------------------------------------

    def in_sync(self, broker_id: int) -> bool:
        """Whether this life of a broker is in the ISR of all partitions it has."""
        image, broker = self.database.image, self.brokers[broker_id]
        known = image.brokers.get(broker_id)
        topic = image.topic(TOPIC)
        return (
            broker.up
            and known is not None
            and known.incarnation_id == broker.incarnation_id
            and topic is not None
            and all(broker_id in p.isr for p in topic.partitions if broker_id in p.replicas)
        )

    def connection_lost(self, broker: Broker) -> None:
        """The active controller's connection from a dead broker breaks; its probe is refused, or takes too long."""
        active = self.active()
        cut = active is not None and (active.name, broker.name) in self.network.cut
        if active is None or cut or self.world.chance(0.3):
            return
        life = broker.life

        def refused() -> None:
            if broker.life == life and not broker.up:
                active.on_connection_refused(broker.broker_id)

        active.after(self.world.random.uniform(2, 60), refused)

    def elect(self, index: int) -> None:
        """ElectLeaders, preferred."""
        self._operate(partial(operations.elect, index=index, config=self.config), f"preferred election of {index}")

    def reassign(self, index: int) -> None:
        """AlterPartitionReassignments, to random replicas."""
        random = self.world.random
        target: list[int] | None = random.sample(range(len(self.brokers)), self._factor())
        if random.random() < 0.2:
            target = None
        self._operate(
            partial(operations.reassign, index=index, replicas=target, config=self.config),
            f"{TOPIC}-{index} moves to {target}" if target else f"{TOPIC}-{index} moves no more",
        )

    def delete_records(self, index: int) -> None:
        """DeleteRecords of the leader, somewhere below the first record that a producer may send again."""
        state = self.database.image.partition(TOPIC, index)
        leader = self.brokers[state.leader] if state is not None and state.leader >= 0 else None
        replica = leader.led(index) if leader is not None and leader.up and not leader.paused else None
        if leader is None or replica is None:
            return
        sure = {
            value
            for producer in self.producers
            if producer.partition == index
            for batch in producer.acknowledged
            for value in batch.values
        }
        log, end = replica.log, replica.log.log_start_offset
        records = chain.from_iterable(map(iterate, split(log.read(end, 2**30).read())))
        for record in records:
            if record.value not in sure or record.offset >= replica.high_watermark:
                break
            end = record.offset + 1
        if end > log.log_start_offset:
            leader.delete_records(index, self.world.random.randint(log.log_start_offset + 1, end))

    def _factor(self) -> int:
        """How many replicas a partition is to have; with fewer than min.insync.replicas less is promised."""
        if self.profile.unclean_budget:
            return self.replication_factor
        return self.world.random.choice((1, 2, 3, 3, 3))

    def _operate(self, decide: Any, what: str) -> None:
        active = self.active()
        if active is None or not active.up or active.paused:
            return
        self.world.say("operator", what)
        active.decide(decide, lambda _answer: None)


def simulate(seed: int, profile: str, *, whole_story: bool = False) -> Outcome:
    """Runs one world to its end."""
    cluster = Cluster(seed, profile)
    world, failure = cluster.world, None
    world.story_lines = WHOLE_STORY if whole_story else STORY_LINES
    try:
        cluster.start()
        world.run(FAULTS_MS)
        cluster.faults.stop()
        for producer in cluster.producers:
            producer.producing = False
        for idempotent in cluster.idempotent:
            idempotent.producing = False
        until_ms = world.now_ms + SETTLE_MS
        while (why := unsettled(cluster)) and world.now_ms < until_ms:
            world.run(world.now_ms + 250)
        if why:
            raise Violation(f"after {SETTLE_MS / 1000:.0f} s of peace: {why}")
        check_end(cluster)
    except Violation as broken:
        failure = str(broken)
    except Exception as crash:  # noqa: BLE001 - whatever the code under test raises is a finding
        failure = f"the code under test failed: {crash!r}\n{traceback.format_exc()}"
    if failure is not None:
        world.say("checker", f"VIOLATION: {failure}")
    topic = cluster.database.image.topic(TOPIC)
    return Outcome(
        seed,
        profile,
        failure,
        world.tell(),
        world.events,
        cluster.faults.count,
        cluster.checker.acknowledged,
        sum(p.leader_epoch for p in topic.partitions) if topic is not None else 0,
        cluster.checker.unclean_elections,
    )
