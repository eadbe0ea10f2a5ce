"""What runs, who leads and owns what, and how long it takes until somebody hears of it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from sim.transactions.checker import Attempt, Checker, TopicPartition
from sim.transactions.coordinators import CoordinatorProcess, ShardPartition, Storage
from sim.transactions.leaders import Broker, Log
from sim.transactions.world import Process, World, ask
from tailrace.coordination.transaction_records import Status, TransactionState
from tailrace.kafka.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace.metadata.image import BrokerImage, MetadataImage, PartitionImage, ServiceImage, ShardImage, TopicImage
from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address
from tailrace.state import partition_for
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.machine import GroupMachine
from tailrace_coordinator.kinds import KINDS
from tailrace_coordinator.shards.kind import ShardKind
from tailrace_coordinator.transactions.config import TransactionConfig
from tailrace_coordinator.transactions.machine import TransactionMachine

TOPIC, INPUT, GROUP = "t", "input", "g"
BROKERS = COORDINATORS = 2
TRANSACTION_SHARDS = 2
CHECK_INTERVAL_MS = 400
NEVER_MS = 600_000
_TOPIC_IDS = {
    name: UUID(int=number)
    for number, name in enumerate((TOPIC, INPUT, GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC), 7)
}


class Cluster:
    """Two brokers, two coordinators, and a controller that moves partitions and shards between them."""

    def __init__(self, world: World, partitions: int, expiration_ms: int) -> None:
        self.world = world
        self.checker = Checker()
        self.attempts: dict[str, Attempt] = {}
        self.partitions = partitions  # in the end; there is one in the beginning
        self.producer_ids = itertools.count(1000)
        self.logs: dict[TopicPartition, Log] = {}
        self.grow()
        shards = [(TRANSACTION_STATE_TOPIC, n) for n in range(TRANSACTION_SHARDS)] + [(GROUP_METADATA_TOPIC, 0)]
        self.shards = {place: ShardPartition(*place, self.checker, self.attempts) for place in shards}
        self.storage = Storage(world, "storage")
        self.storage.boot()
        self.expires = expiration_ms < NEVER_MS
        self.repeats = False  # whether the network brings requests twice or late
        self.kinds = _kinds(expiration_ms)
        self.brokers = [Broker(world, number, self) for number in range(BROKERS)]
        self.coordinators = [CoordinatorProcess(world, number, self) for number in range(COORDINATORS)]
        self.image = MetadataImage(offset=0, features={"transaction.version": 2})
        self._owners = {place: (number % COORDINATORS, 1) for number, place in enumerate(shards)}
        self._services: dict[tuple[str, int], ServiceImage] = {}

    def start(self) -> None:
        """Boots everything."""
        for broker in self.brokers:
            broker.boot()
        for process in self.coordinators:
            self.boot(process)

    # -- where somebody is -------------------------------------------------------------------------------------------

    def at(self, address: Address) -> Process:
        return self.brokers[address.port - 1] if address.port < 100 else self.coordinators[address.port - 100]

    def transaction_coordinator(self, transactional_id: str) -> CoordinatorProcess:
        return self.owner(TRANSACTION_STATE_TOPIC, partition_for(transactional_id, TRANSACTION_SHARDS))

    def owner(self, topic: str, index: int) -> CoordinatorProcess:
        """Whom somebody believes to own the shard: sometimes that is news of yesterday."""
        if self.world.chance(0.1):
            return self.world.random.choice(self.coordinators)
        return self.coordinators[self._owners[topic, index][0]]

    async def ask(
        self, source: Process, target: Process, request: Any, version: int, timeout_ms: float, *, repeats: bool = True
    ) -> Any:
        """Asks a broker or a coordinator. Raises Disconnected or TimeoutError."""
        return await ask(source, target, lambda: target.serve(request, version), timeout_ms, repeats=repeats)

    # -- the controller ----------------------------------------------------------------------------------------------

    def boot(self, process: CoordinatorProcess) -> None:
        """A coordinator registers; what it owned in another life it owns anew."""
        process.boot()
        endpoints = (Endpoint("INTERNAL", "127.0.0.1", 100 + process.number),)
        self._services["coordinator", process.number] = ServiceImage(
            "coordinator", process.number, self.image.offset, process.incarnation_id, endpoints
        )
        for place, (owner, _) in list(self._owners.items()):
            if owner == process.number or not self.coordinators[owner].up:
                self._own(place, process.number)
        self.publish()

    def lost(self, process: CoordinatorProcess) -> None:
        """The session of a coordinator is over: others own its shards."""
        others = [one for one in self.coordinators if one is not process and one.up and not one.paused]
        if others:
            for place, (owner, _) in list(self._owners.items()):
                if owner == process.number:
                    self._own(place, self.world.random.choice(others).number)
            self.publish()

    def move(self, place: TopicPartition, owner: int) -> None:
        self._own(place, owner)
        self.publish()

    def _own(self, place: TopicPartition, owner: int) -> None:
        epoch = self._owners[place][1] + 1
        self._owners[place] = (owner, epoch)
        self.world.say("controller", f"{place} is of coordinator {owner} from epoch {epoch} on")

    def lead(self, place: TopicPartition, broker: int) -> None:
        """Another leader, or the same in another life."""
        log = self.logs[place]
        log.leader = broker
        log.load()
        self.world.say("controller", f"broker {broker} leads {place}")
        self.publish()

    def publish(self) -> None:
        """Makes the next image; everybody hears of it some time."""
        image = self.image = replace(
            self.image,
            offset=self.image.offset + 1,
            topics=self._topics(),
            topic_names={topic_id: name for name, topic_id in _TOPIC_IDS.items()},
            brokers={number: _broker(number) for number in range(BROKERS)},
            services=dict(self._services),
            shards={place: ShardImage(*place, *owner) for place, owner in self._owners.items()},
        )
        for process in self.coordinators:
            life = process.life
            late = self.world.chance(0.15)
            delay_ms = self.world.random.uniform(100, 1_500) if late else self.world.random.uniform(1, 20)
            self.world.after(delay_ms, lambda p=process, life=life: p.deliver(life, lambda: p.show(image)))  # type: ignore[misc]

    def _topics(self) -> Mapping[str, TopicImage]:
        def partition(leader: int) -> PartitionImage:
            return PartitionImage((0, 1), (0, 1), leader, 0, 0)

        leaders = {
            TOPIC: [self.logs[TOPIC, index].leader for index in range(len(self.logs))],
            INPUT: [0] * 3,
            GROUP_METADATA_TOPIC: [0],
            TRANSACTION_STATE_TOPIC: [0] * TRANSACTION_SHARDS,
        }
        return {name: TopicImage(name, _TOPIC_IDS[name], tuple(map(partition, rows))) for name, rows in leaders.items()}

    def grow(self) -> Log:
        """One more partition of the topic."""
        index = len(self.logs)
        log = self.logs[TOPIC, index] = Log((TOPIC, index), self.checker)
        log.leader = index % BROKERS
        return log

    # -- beginning ---------------------------------------------------------------------------------------------------

    def preload(self, transactional_id: str, producer_epoch: int) -> None:
        """An id whose epochs are nearly used up."""
        index = partition_for(transactional_id, TRANSACTION_SHARDS)
        record = TransactionState(
            transactional_id,
            next(self.producer_ids),
            producer_epoch,
            1_000,
            Status.EMPTY,
            (),
            self.storage.wall_ms(),
            -1,
        )
        self.shards[TRANSACTION_STATE_TOPIC, index].preload(record)


def _broker(number: int) -> BrokerImage:
    return BrokerImage(number, 1, UUID(int=9), (Endpoint("INTERNAL", "127.0.0.1", 1 + number),), fenced=False)


def _kinds(expiration_ms: int) -> dict[str, ShardKind[Any]]:
    groups = GroupConfig(group_initial_rebalance_delay_ms=0)
    transactions = TransactionConfig(
        abort_timed_out_interval_ms=CHECK_INTERVAL_MS,
        transactional_id_expiration_ms=expiration_ms,
        remove_expired_interval_ms=700,
    )
    return {
        GROUP_METADATA_TOPIC: replace(KINDS[GROUP_METADATA_TOPIC], machine=lambda _: GroupMachine(groups)),
        TRANSACTION_STATE_TOPIC: replace(
            KINDS[TRANSACTION_STATE_TOPIC], machine=lambda _: TransactionMachine(transactions)
        ),
    }
