"""Coordinators: the real role object with its shards, handlers and marker sender, on the world's partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sim.transactions.checker import Attempt, Checker
from sim.transactions.world import Process, World, ask
from support.coordinator import CONFIG, LOGGER
from support.sessions import session_of
from tailrace.coordination import group_records, transaction_records
from tailrace.coordination.group_records import OffsetCommitted
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import TRANSACTION_STATE_TOPIC
from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.context import Context
from tailrace.net.identity import Identity
from tailrace.records.markers import COMMIT, MARKER_KEY
from tailrace.records.record import Record, build
from tailrace.state import KeyValue, ShardBatch
from tailrace.wire import messages as m
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.handlers import HANDLERS
from tailrace_coordinator.shards.deadlines import Deadlines
from tailrace_coordinator.shards.partition_log import Barrier, OwnedPartition
from tailrace_coordinator.shards.runtime import CoordinatorRuntime, RuntimeContext
from tailrace_coordinator.transactions.markers import MarkerSender
from tailrace_coordinator.transactions.peers import Peers

if TYPE_CHECKING:
    from sim.transactions.cluster import Cluster

_BARRIER: KeyValue = (b"barrier", None)
_READ = 400  # records at once
_LOG_TIMEOUT_MS = 700


class Storage(Process):
    """Leads the internal topics' partitions; it does not die here."""


class ShardPartition:
    """One partition of an internal topic, with its epoch check; tells the checker what is appended."""

    def __init__(self, topic: str, index: int, checker: Checker, attempts: dict[str, Attempt]) -> None:
        self.topic = topic
        self.place = (topic, index)
        self.checker = checker
        self.attempts = attempts
        self.batches: list[bytes] = []
        self.starts: list[int] = []
        self.end_offset = 0
        self.shard_epoch = -1

    def fence(self, shard_epoch: int) -> Barrier:
        if shard_epoch < self.shard_epoch:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        self.shard_epoch = shard_epoch
        offset = self.end_offset
        self._write(ShardBatch((_BARRIER,), None, is_control=True))
        return Barrier(offset, 0, 0)

    def append(self, shard_epoch: int, base_offset: int, batch: ShardBatch) -> int:
        if shard_epoch < self.shard_epoch or base_offset != self.end_offset:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        self.shard_epoch = shard_epoch
        self._tell(batch)
        self._write(batch)
        return base_offset

    def preload(self, record: transaction_records.TransactionState) -> None:
        """What was there before this world."""
        self.checker.on_state(record)
        self._write(ShardBatch((transaction_records.encode(record),)))

    def read(self, offset: int) -> bytes:
        first = next(n for n in range(len(self.starts) - 1, -1, -1) if self.starts[n] <= offset)
        return b"".join(self.batches[first : first + _READ])

    def _write(self, batch: ShardBatch) -> None:
        records = [Record(timestamp=0, key=key, value=value) for key, value in batch.records]
        producer_id, epoch = batch.producer or (-1, -1)
        self.starts.append(self.end_offset)
        self.batches.append(
            bytes(
                build(
                    records,
                    base_offset=self.end_offset,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    transactional=batch.producer is not None,
                    control=batch.is_control,
                )
            )
        )
        self.end_offset += len(records)

    def _tell(self, batch: ShardBatch) -> None:
        if self.topic == TRANSACTION_STATE_TOPIC:
            for key, value in batch.records:
                record = transaction_records.decode(key, value)
                assert record is not None
                self.checker.on_state(record)
        elif batch.producer is not None and batch.is_control:
            kind = MARKER_KEY.unpack_from(batch.records[0][0])[1]
            self.checker.on_marker(self.place, batch.producer, kind == COMMIT)
        elif batch.producer is not None:
            for key, value in batch.records:
                offset = group_records.decode(key, value)
                assert isinstance(offset, OffsetCommitted)
                attempt = self.attempts[offset.metadata]
                self.checker.on_records(self.place, batch.producer, attempt)


class _ShardLog:
    """The partition as one owner reaches it."""

    def __init__(self, process: CoordinatorProcess, partition: ShardPartition, owned: OwnedPartition) -> None:
        self.process = process
        self.partition = partition
        self.epoch = owned.shard_epoch

    async def fence(self) -> Barrier:
        barrier: Barrier = await self._call(lambda: self.partition.fence(self.epoch))
        return barrier

    async def read(self, offset: int) -> bytes:
        records: bytes = await self._call(lambda: self.partition.read(offset))
        return records

    async def append(self, batch: ShardBatch, base_offset: int, now_ms: int) -> int:
        appended: int = await self._call(lambda: self.partition.append(self.epoch, base_offset, batch))
        return appended

    async def _call(self, act: Callable[[], Any]) -> Any:
        async def serve() -> Any:
            return act()

        return await ask(self.process, self.process.cluster.storage, serve, _LOG_TIMEOUT_MS)


class _Peers(Peers):
    """Reaches brokers and coordinators over the world's network."""

    def __init__(self, process: CoordinatorProcess, image: Callable[[], MetadataImage]) -> None:
        super().__init__(image, "boot")
        self._process = process

    async def ask(self, address: Address, request: Any, *, version: int, timeout_ms: float, lane: int = 0) -> Any:
        cluster = self._process.cluster
        # Up to version 1 a transaction's epoch is the next one's, too: nothing tells their markers apart.
        repeats = not isinstance(request, m.WriteTxnMarkersRequest) or all(
            marker.transaction_version >= 2 for marker in request.markers
        )
        target = cluster.at(address)
        return await cluster.ask(self._process, target, request, version, min(timeout_ms, 900), repeats=repeats)


class _Connected:
    session = session_of(Identity(client_host="127.0.0.1", listener="INTERNAL"))

    def close(self) -> None:
        raise AssertionError("no handler closes connections")

    def give_way(self, why: str) -> None: ...


class CoordinatorProcess(Process):
    """One coordinator; a new role object in each life."""

    def __init__(self, world: World, number: int, cluster: Cluster) -> None:
        super().__init__(world, f"coordinator {number}")
        self.number = number
        self.cluster = cluster
        self.image = MetadataImage()
        self.coordinator: Coordinator | None = None
        self.incarnation_id = UUID(int=1)

    def boot(self) -> None:
        super().boot()
        self.incarnation_id = UUID(int=self.world.random.getrandbits(64))
        self.image = MetadataImage()
        self._deadlines = Deadlines(self)
        peers = _Peers(self, lambda: coordinator.image)
        markers = MarkerSender(
            peers,
            lambda: coordinator.image,
            self,
            lambda owned, ended: coordinator.transactions.ask_partition(
                owned.partition, lambda machine, now_ms, token: machine.complete(now_ms, token, ended)
            ),
            self._caught_up,
        )
        kinds = self.cluster.kinds
        runtimes = {
            topic: CoordinatorRuntime(topic, kind, self._around(topic, markers)) for topic, kind in kinds.items()
        }
        coordinator = self.coordinator = Coordinator(
            self.number,
            runtimes,
            random=self.world.random,
            catch_up=self._caught_up,
            peers=peers,
            markers=markers,
            offsets_topic_partitions=CONFIG.offsets_topic_num_partitions,
            earlier_transaction_ms=100,
            rebalance_protocols=CONFIG.group_coordinator_rebalance_protocols,
        )
        coordinator.incarnation_id = self.incarnation_id

    def _around(self, topic: str, markers: MarkerSender) -> RuntimeContext:
        return RuntimeContext(
            coordinator_id=self.number,
            config=CONFIG,
            clock=self,
            random=self.world.random,
            log=LOGGER,
            boot_id="boot",
            deadlines=self._deadlines,
            logs=lambda owned: _ShardLog(self, self.cluster.shards[topic, owned.partition], owned),
            act=markers.act,
        )

    async def _caught_up(self) -> bool:
        """Asks the controller for the newest image, which may be lost on the way."""
        newest = self.cluster.image
        await self.sleep(self.world.random.uniform(1, 30))
        if self.world.chance(self.world.weather.loss):
            return False
        self.show(newest)
        await self.sleep(0)  # `show` is at work
        return True

    def end(self) -> None:
        super().end()
        coordinator, self.coordinator = self.coordinator, None
        if coordinator is not None:
            self._deadlines.close()
            self.world.spawn(coordinator.close())

    def show(self, image: MetadataImage) -> None:
        """Takes an image, which may come late and never goes back."""
        if self.coordinator is not None and image.offset > self.image.offset:
            old, self.image = self.image, image

            async def take() -> None:
                if self.coordinator is not None:
                    self.coordinator.on_image(old, image)

            self.spawn(take())

    async def serve(self, request: Any, version: int) -> Any:
        assert self.coordinator is not None
        context = Context(request.API_KEY, version, 1, "client", _Connected())
        try:
            return await HANDLERS[request.API_KEY](request, context, self.coordinator)
        except ApiError as refused:
            return refused.code
