"""The broker: partitions led here, who waits on them, and what the metadata image says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tailrace.clock import Clock
from tailrace.config import LONG_MAX, Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.kafka.resources import ALL_BROKERS, ConfigResource
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.log import Log
from tailrace.metadata.directories import LOST, MIGRATING, UNASSIGNED, directory_of
from tailrace.metadata.image import MetadataImage, PartitionImage
from tailrace.metadata.records import NO_LEADER
from tailrace.net.background import in_thread
from tailrace.net.identity import Identity
from tailrace.net.metadata.follower import MetadataFollower
from tailrace_broker.cold_reads.reads import ColdReads
from tailrace_broker.connections.adopted import Adopted
from tailrace_broker.directories.assignments import Assignments
from tailrace_broker.directories.disk_pressure import DiskPressure
from tailrace_broker.directories.moves import DirMoves
from tailrace_broker.directories.storage import Storage
from tailrace_broker.fetch.lookups import Lookups
from tailrace_broker.metrics import BrokerMetrics
from tailrace_broker.partitions import cached_image
from tailrace_broker.partitions.counts import PartitionCounts, counted
from tailrace_broker.partitions.flusher import Flusher
from tailrace_broker.partitions.leader import IsrChange
from tailrace_broker.partitions.node import Node
from tailrace_broker.partitions.opening import Openings
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.partitions.recovery import Recoveries
from tailrace_broker.partitions.shard_barriers import last_barrier_epoch
from tailrace_broker.partitions.throttle import Throttle
from tailrace_broker.partitions.topics import Changes, TakeUp, Topics
from tailrace_broker.produce.producer_ids import ProducerIds
from tailrace_broker.produce.validation_threads import Examiner
from tailrace_broker.transactions.coordinators import Coordinators
from tailrace_broker.transactions.hanging import HangingTransactions
from tailrace_broker.transactions.open_transactions import OpenTransaction, by_partition, late_after_ms
from tailrace_broker.waiting.purgatory import Purgatory

if TYPE_CHECKING:
    from tailrace_broker.compaction.cleaner import Cleaner

CLIENT_ENDPOINT = "CLIENT"
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Broker:
    """One node's state; handlers are its only callers."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        random: Random,
        *,
        storage: Storage,
        follower: MetadataFollower,
        metrics: BrokerMetrics,
        pressure: DiskPressure,
        log: Any,
        cold_reads: ColdReads | None = None,
    ) -> None:
        self.static_config = config
        self.config = config
        self.node_id: int = config.node_id
        self.storage = storage
        self.follower = follower
        self.metrics = metrics
        self.pressure = pressure
        self.leader_throttle = Throttle(
            lambda: self.dynamic_rate("leader.replication.throttled.rate"), clock.monotonic_ms
        )
        self.follower_throttle = Throttle(
            lambda: self.dynamic_rate("follower.replication.throttled.rate"), clock.monotonic_ms
        )
        self.node = Node(self.node_id, clock.monotonic_ms, config.replica_lag_time_max_ms)
        self.recoveries = Recoveries(storage, lambda: self.config.num_recovery_threads_per_data_dir, log)
        self.recoveries.on_recovered = self.on_recovered
        loop = asyncio.get_running_loop()
        self.openings = Openings(clock.monotonic_ms, loop.call_soon)
        self.openings.on_turn = self._take_up
        self.topics = Topics(self.node, storage.open, storage.checkpointed, self._place, self.recoveries, self.openings)
        # Told by app.py: who lets the controller know where replicas lie.
        self._assignments: Assignments | None = None
        self._strays_are_aside = False
        # Replication's part, put in by app.py: who fetches from whom, and who asks the controller.
        self.on_changes: Callable[[Changes], None] = lambda changes: None
        # Clients that a gateway handed over, put in by app.py.
        self.adopted: Adopted | None = None
        self.held_producers: dict[Any, Any] = {}  # requests that wait for a coordinator (produce/verification.py)
        self.coordinators: Coordinators | None = None  # of transactions and groups, put in by app.py
        self.hanging: HangingTransactions | None = None  # put in by app.py
        self.on_isr_change: Callable[[Partition, IsrChange], None] = lambda partition, change: None
        self.purgatory = Purgatory(clock, loop.call_soon)
        self.lookups = Lookups()
        self.examiner = Examiner()
        self.cold_reads = ColdReads() if cold_reads is None else cold_reads
        self.cold_reads.walk = self.lookups.walk
        self.cleaner: Cleaner | None = None  # put in by app.py
        self.flusher = Flusher(clock, self.on_flushed)
        for log_dir in storage.configured:
            self.flusher.relieve(log_dir.guard.open_files)
        self.producer_ids = ProducerIds(self.node_id, follower.ask_controller)
        self.now_ms = clock.wall_ms
        self.monotonic_ms = clock.monotonic_ms
        self._random = random
        self._log = log
        self.dir_moves = DirMoves(
            config,
            clock,
            log,
            storage=storage,
            topics=self.topics,
            flusher=self.flusher,
            pressure=pressure,
            rate=lambda: self.dynamic_rate("replica.alter.log.dirs.io.max.bytes.per.second"),
            on_placed=self.account,
            on_swapped=self._on_swapped,
        )
        if not cached_image.goes_on(follower.image, self.node_id, storage.closed_epoch, storage.closed_offset):
            self.topics.hold_back()

    async def begin(self) -> None:
        """Takes up the image that is there, and from then on each that follows."""
        await self.follower.begin(self.on_image)

    def open_transactions(self) -> AsyncIterator[list[OpenTransaction]]:
        """Of each partition that is led here."""
        return by_partition(self.topics.each(), self.node_id, self.now_ms(), late_after_ms(self.config))

    async def count_partitions(self) -> PartitionCounts:
        """For the metrics; what is taken away meanwhile may be counted."""
        return await counted(self.topics.each(), self.node_id, self.now_ms(), late_after_ms(self.config))

    @property
    def image(self) -> MetadataImage:
        return self.follower.image

    async def on_epoch(self, epoch: int) -> None:
        """This life of the broker was registered."""
        self.node.broker_epoch = self.producer_ids.broker_epoch = epoch
        if not (self.node.leads_shared and self._strays_are_aside):
            await self.follower.again(self.on_image)  # it may have come before the registration's answer

    async def on_unreachable(self) -> None:
        """No controller answered this life's registration: what has no other replica is led on as the image says."""
        if not self.node.leads_alone:
            self._log.warning("no controller is reached: leads what has no other replica, in the leader epoch it had")
            await self.follower.again(lambda _, image: self.topics.release_alone(image, self._carry_out))

    def on_image(self, old: MetadataImage, new: MetadataImage) -> TakeUp:
        """Follows the metadata image: new leaders, new configs, deleted topics. One image after the other."""
        if old.configs is not new.configs:
            self._reconfigure(old, new)
        self.storage.follow(old, new, self.config)
        self.node.brokers = new.brokers
        yield from self.topics.update(old, new, self._carry_out)
        if old.configs is not new.configs:  # flush.ms may be among them
            self.node.changed.update(p for p in self.topics.partitions() if p.opened is not None)
            self.topics.place_again()
        if not self.node.leads_shared and self._registered(new):
            yield from self.topics.release(new, self._carry_out)
        if old.topics is not new.topics:
            self.dir_moves.resume()
        if not self._strays_are_aside and self._registered(new):
            self._strays_are_aside = True
            self.storage.put_strays_aside(new, self.node_id)

    def _carry_out(self, changes: Changes) -> None:
        """A piece of what an image brought."""
        for partition in changes.deleted:
            if self._assignments is not None:
                self._assignments.settled((partition.topic_id, partition.index))
            self.dir_moves.cancel(partition)
            partition.leader = -1
            partition.leading = None
            partition.close()
            self.storage.delete(partition.topic, partition.topic_id, partition.index)
        self._follow(changes)

    def change_log(self, partition: Partition, change: Callable[[Log], None]) -> bool:
        """Has a thread change a follower's log, see Recoveries.change; False where that has to be done at once."""
        if partition in self.dir_moves.moves or not self.recoveries.change(partition, change):
            return False
        self._follow(self.topics.set_aside(partition))
        return True

    def on_recovered(self, topic: str, index: int) -> None:
        """The log of a partition that had to wait for it is there."""
        self._take_up([(topic, index)])

    def _take_up(self, keys: Iterable[TopicPartition]) -> None:
        """Partitions that waited follow the image as it is now."""
        self._follow(self.topics.recovered(keys))
        self.dir_moves.resume()

    def _follow(self, changes: Changes) -> None:
        """Tells who waits for these partitions, and who replicates them."""
        if not changes.more:
            self.flusher.settle_all(self.storage.dirs)
        for partition in (*changes.moved, *changes.deleted):
            partition.refuse_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.purgatory.mark(partition)
            self.purgatory.mark(partition.tail)
        for partition in (*changes.moved, *changes.touched):
            if partition.syncing:  # its log was opened just now
                self.flusher.request(partition)
        for partition in changes.touched:
            self.committed(partition)
            partition.settle_deletions()  # who has not given the records up may be gone
        self.on_changes(changes)

    def _registered(self, image: MetadataImage) -> bool:
        """Whether the image knows this life of the broker, and so has decided what it leads."""
        broker = image.brokers.get(self.node_id)
        return broker is not None and broker.broker_epoch == self.node.broker_epoch >= 0

    def dynamic_rate(self, name: str) -> int:
        """A rate that exists as a dynamic config only (KIP-73): this broker's, else the default one, else no limit."""
        for key in (str(self.node_id), ""):
            text = self.image.config(ConfigResource.BROKER, key).get(name)
            if text is not None:
                return int(text)
        return LONG_MAX

    def _reconfigure(self, old: MetadataImage, new: MetadataImage) -> None:
        """KIP-226: this broker's dynamic configs lie above what it was started with."""
        own, default = (ConfigResource.BROKER, str(self.node_id)), (ConfigResource.BROKER, ALL_BROKERS)
        if any(old.configs.get(key) != new.configs.get(key) for key in (own, default)):
            self.config = self.static_config.with_dynamic(new.config(*default), new.config(*own))
            self.pressure.reconfigure(self.config)

    async def close(self, broker_epoch: int) -> None:
        """Ends the threads and closes the log dirs for the next life, in a thread.

        The listener, housekeeping and replication have ended. No log is closed before it is certain that nothing is
        appended to it any more.
        """
        await self.follower.end(self.on_image)
        image, partitions = self.image, list(self.topics.partitions())
        self.openings.close()
        self.producer_ids.close()
        metadata_offset = cached_image.closing_offset(image, partitions)
        for partition in partitions:
            partition.resign()
        self.cold_reads.close()
        self.lookups.close()
        self.examiner.close()
        await self.flusher.close()
        await self.note_high_watermarks(partitions)
        await in_thread(partial(self.storage.close, broker_epoch, metadata_offset))

    async def note_high_watermarks(self, partitions: Iterable[Partition]) -> list[LogDir]:
        """Tells log dirs how far retention may go and what the next checkpoint holds; returns those it concerned."""
        concerned: dict[LogDir, bool] = {}
        async for partition in self.topics.each(partitions):
            log_dir = self.storage.place_of(partition.topic, partition.index)
            if partition.opened is not None and log_dir is not None and log_dir.failure is None:
                log_dir.high_watermarks[partition.topic, partition.index] = partition.high_watermark
                concerned[log_dir] = True
        return list(concerned)

    # -- log dirs -------------------------------------------------------------------------------------------------

    async def account_to(self, assignments: Assignments) -> None:
        """From now on the controller hears where replicas lie, and at once of those that the image has elsewhere."""
        self._assignments = assignments
        async for partition in self.topics.each():
            self.account(partition)

    def account(self, partition: Partition) -> None:
        """The controller hears where the replica lies, if it does not know."""
        image = self.image.partition(partition.topic, partition.index)
        if image is not None and partition.offline:
            self._account(partition.topic, partition.topic_id, partition.index, image)
        elif image is not None:
            self._place(partition.topic, partition.topic_id, partition.index, image)

    def _place(self, topic: str, topic_id: UUID, index: int, image: PartitionImage) -> bool:
        """Finds the partition's log dir; whether that is online.

        A dir that was taken out of log.dirs or lost has its replicas copied from their leaders. Where nobody else leads
        it is waited for, as in Kafka, unless the topic would rather lose records (unclean.leader.election.enable).
        """
        refilled = image.leader not in (NO_LEADER, self.node_id)
        refilled = refilled or self.storage.topic_config(topic).unclean_leader_election_enable
        assigned = directory_of(image, self.node_id)
        log_dir = self.storage.place(topic, topic_id, index, assigned, refilled=refilled)
        self._account(topic, topic_id, index, image)
        return log_dir is not None and log_dir.failure is None

    def _account(self, topic: str, topic_id: UUID, index: int, image: PartitionImage) -> None:
        """Tells the controller what it does not know: also that what it knows in no directory yet is on none online."""
        if self._assignments is None:
            return
        assigned, log_dir = directory_of(image, self.node_id), self.storage.place_of(topic, index)
        if log_dir is not None and assigned == log_dir.directory_id:
            self._assignments.settled((topic_id, index))
        elif log_dir is not None and log_dir.failure is None:
            self._assignments.assign((topic_id, index), log_dir.directory_id)
        elif log_dir is not None or assigned in (None, UNASSIGNED, MIGRATING):
            self._assignments.assign((topic_id, index), LOST)

    def on_dir_failed(self, log_dir: LogDir) -> None:
        """Nothing of what lies there is acknowledged, served or followed any more."""
        self.dir_moves.dir_failed(log_dir)
        gone = [p for p in self.topics.partitions() if self.storage.place_of(p.topic, p.index) is log_dir]
        for partition in gone:
            self.dir_moves.cancel(partition)
            partition.go_offline()
            image = self.image.partition(partition.topic, partition.index)
            if image is not None:
                self._account(partition.topic, partition.topic_id, partition.index, image)
            partition.refuse_waiting(ErrorCode.KAFKA_STORAGE_ERROR)
            self.purgatory.mark(partition)
            self.purgatory.mark(partition.tail)
        self.on_changes(Changes(gone, [], []))

    # -- partitions -----------------------------------------------------------------------------------------------

    def leading(self, key: bytes, index: int, *, by_id: bool) -> tuple[Partition | None, int]:
        """See Topics.leading."""
        return self.topics.leading(key, index, by_id=by_id)

    def led(self, topic: str, index: int) -> Partition:
        """The partition of that name if this broker leads it; else ApiError with Kafka's code."""
        partition, code = self.topics.leading(topic.encode(), index, by_id=False)
        if partition is None:
            raise ApiError(ErrorCode(code))
        return partition

    def readable(self, key: bytes, index: int, *, by_id: bool) -> tuple[Partition | None, int]:
        """As leading, but a follower's replica serves consumers as well (KIP-392)."""
        return self.topics.readable(key, index, by_id=by_id)

    def appended(self, partition: Partition, committed: int = -1) -> None:
        """Wakes who waits for the partition's data, once in this loop tick.

        committed is the high watermark before the append, which moves it only where nobody else must have the data.
        """
        if partition.syncing:
            self.flusher.request(partition)
        if partition.leading is None:
            self.purgatory.mark(partition)
            return
        self.purgatory.mark(partition.tail)
        if partition.high_watermark != committed:
            self.committed(partition)

    def heard(self, partition: Partition) -> None:
        """A follower's fetch was taken note of: what it has may be committed now, and it may join the ISR."""
        if partition.advance():
            self.committed(partition)
        if partition.deletions:
            partition.settle_deletions()
        change = partition.propose_isr(shrink=False)
        if change is not None:
            self.on_isr_change(partition, change)

    def committed(self, partition: Partition) -> None:
        """The high watermark may have moved: answers acks=all and wakes consumers."""
        if partition.commits or partition.flushes:
            partition.settle()
        self.purgatory.mark(partition)

    def _on_swapped(self, partition: Partition) -> None:
        """A copy in another log dir is the partition's log from now on."""
        self.committed(partition)
        self.account(partition)

    def refuse_shard_epoch(self, partition: Partition, shard_epoch: int) -> int:
        """NOT_COORDINATOR to an older owner; UNKNOWN_LEADER_EPOCH to one that no controller is known to have given.

        Known is what the image says, and what an earlier leader, who knew it from its own, wrote into the log.
        """
        self._learn_shard_epoch(partition)
        if shard_epoch < partition.shard_epoch:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.UNKNOWN_LEADER_EPOCH if shard_epoch > partition.shard_epoch else ErrorCode.NONE

    def _learn_shard_epoch(self, partition: Partition) -> None:
        """Raises the partition's shard epoch to what the image and, once, the log's last barrier say."""
        if partition.shard_epoch < 0:
            partition.shard_epoch = max(0, last_barrier_epoch(partition.log))
        shard = self.image.shards.get((partition.topic, partition.index))
        if shard is not None and shard.shard_epoch > partition.shard_epoch:
            partition.shard_epoch = shard.shard_epoch

    def on_flushed(self, partition: Partition, error: OSError | None) -> None:
        """A flush that flush.messages asked for is over."""
        if error is None:
            self.node.changed.add(partition)  # its recovery point
            partition.advance()
            self.committed(partition)
        else:
            log_dir = self.storage.place_of(partition.topic, partition.index)
            if log_dir is not None:
                log_dir.fail(error)
            partition.refuse_waiting(ErrorCode.KAFKA_STORAGE_ERROR)

    def preferred_replica(self, partition: Partition, rack: str, offset: int) -> int:
        """KIP-392: the furthest replica in sync in the consumer's rack that has offset; -1 for the leader itself.

        One out of sync may lag forever, and who is sent there with it: the leader would name it again and again.
        """
        leading = partition.leading
        if leading is None or not rack or self.config.replica_selector_class != RACK_AWARE:
            return -1
        brokers = self.image.brokers
        own = brokers.get(self.node_id)
        if own is not None and own.rack == rack:
            return -1
        there = [
            (replica.log_end_offset, replica.caught_up_ms, broker_id)
            for broker_id, replica in leading.replicas.items()
            if broker_id in partition.isr
            and (broker := brokers.get(broker_id)) is not None
            and not broker.fenced
            and broker.rack == rack
            and replica.log_start_offset <= offset <= replica.log_end_offset
        ]
        return max(there)[2] if there else -1

    # -- hints (KIP-951) ------------------------------------------------------------------------------------------

    def leader_hint(self, key: bytes, index: int) -> tuple[int, int] | None:
        """(leader id, leader epoch) of a partition led elsewhere, if the image names one."""
        row = self.topics.by_name.get(key) or self.topics.by_id.get(key)
        if row is None or not 0 <= index < len(row.image.partitions):
            return None
        image = row.image.partitions[index]
        return (image.leader, image.leader_epoch) if image.leader >= 0 else None

    def endpoints(self, nodes: Iterable[int], identity: Identity) -> list[tuple[int, str, int]]:
        """(node id, host, port) as this client is told them."""
        found = []
        for node in sorted(nodes):
            if self.config.gateway_advertise == "brokers":
                broker = self.image.brokers.get(node)
                endpoint = broker.endpoint(CLIENT_ENDPOINT) if broker is not None else None
                if endpoint is not None:
                    found.append((node, endpoint.host, endpoint.port))
            else:
                found.append((node, identity.advertised_host, identity.base_port + node))
        return found

    @staticmethod
    def uuid(key: bytes) -> UUID:
        """A topic id off the wire."""
        return UUID(bytes=key)

    def new_session_id(self) -> int:
        """A fetch session id, never 0 (KIP-227)."""
        return self._random.randrange(1, 2**31)
