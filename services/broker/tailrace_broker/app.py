"""Opens a broker: log dirs, metadata, listeners, registration; closed in reverse. Builds every object of the role."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from tailrace.access.authorizer import Authorizer
from tailrace.clock import Clock
from tailrace.config import Config
from tailrace.log.directory.log_dir import LogDir
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import Endpoint
from tailrace.net.authentication.metrics import with_logins
from tailrace.net.authorization.opening import open_authorizer
from tailrace.net.background import in_background, in_thread
from tailrace.net.backoff import Backoff
from tailrace.net.dispatch import Handler, HotHandler, Service, topic_names
from tailrace.net.large import Large
from tailrace.net.limits.connections_per_ip import connections_per_ip
from tailrace.net.limits.request_memory import RequestMemory
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.limits.role_memory_metrics import RoleMemoryMetrics
from tailrace.net.listeners.listener import listeners_of, mechanisms_of
from tailrace.net.members.internal import advertised_endpoints, internal_address
from tailrace.net.members.lease_holders import broker_as_holder
from tailrace.net.metadata.follower import MetadataFollower, open_metadata_follower
from tailrace.net.quotas.opening import open_quotas
from tailrace.net.quotas.throttled_connections import ThrottledConnections
from tailrace.net.requests.metrics import RequestMetrics
from tailrace.net.sasl.opening import open_sasl
from tailrace.net.server import Encryption, Server, serve
from tailrace.net.tls.handshakes import open_handshakes
from tailrace.net.transport.buffers import SocketBuffers
from tailrace.processor_time import thread_time_ms
from tailrace.runtime.role import Environment, Role
from tailrace.wire.apis import APIS, INTERNAL_APIS, ApiKey
from tailrace_broker import gauges
from tailrace_broker.broker import Broker
from tailrace_broker.cold_reads.pool import BLOCK_BYTES, BlockPool
from tailrace_broker.cold_reads.reads import ColdReads
from tailrace_broker.cold_reads.worker import ColdWorker, InProcess, InThreads
from tailrace_broker.compaction.cleaner import Cleaner
from tailrace_broker.compaction.worker import ProcessWorker, Workers, open_pace
from tailrace_broker.connections.adopted import Adopted
from tailrace_broker.connections.client_listener import GatewayRelay
from tailrace_broker.connections.limited import DirectClients, LimitedClients
from tailrace_broker.connections.limited_requests import LimitedRequests
from tailrace_broker.connections.own_listener import client_endpoint, client_port, for_clients, serve_clients
from tailrace_broker.directories.assignments import Assignments
from tailrace_broker.directories.disk_pressure import DiskPressure
from tailrace_broker.directories.failure import DirWatch
from tailrace_broker.directories.moves import DirMoves
from tailrace_broker.directories.opening import open_log_dirs
from tailrace_broker.directories.replica_dirs import Accounts, ReplicaDirs, note_high_watermarks
from tailrace_broker.directories.storage import Storage
from tailrace_broker.dynamic_config import DynamicBrokerConfig
from tailrace_broker.fetch.delayed import FetchParts
from tailrace_broker.fetch.fast import FastFetch
from tailrace_broker.fetch.lookups import Lookups
from tailrace_broker.fetch.plain import PlainFetch
from tailrace_broker.fetch.sessions import FetchSessions
from tailrace_broker.handlers import client_handlers, service_handlers
from tailrace_broker.handlers.list_offsets import EndsPath
from tailrace_broker.hints import Hints
from tailrace_broker.housekeeping import Housekeeping
from tailrace_broker.lifecycle import BrokerRegistration, Lifecycle
from tailrace_broker.metadata_publisher import BrokerMetadataPublisher
from tailrace_broker.metrics import BrokerMetrics
from tailrace_broker.partition_metrics import PartitionMetrics
from tailrace_broker.partitions import cached_image, recovery_report
from tailrace_broker.partitions.node import Node
from tailrace_broker.partitions.opening import Openings
from tailrace_broker.partitions.recovery import Recoveries
from tailrace_broker.partitions.throttle import Throttle
from tailrace_broker.partitions.topics import Topics
from tailrace_broker.partitions.wakeups import WakeUps
from tailrace_broker.produce.answers import ProduceAnswers
from tailrace_broker.produce.fast import FastProduce
from tailrace_broker.produce.many_rows import ManyRowsProduce
from tailrace_broker.produce.plain import PlainProduce, ProduceParts
from tailrace_broker.produce.producer_ids import ProducerIds
from tailrace_broker.produce.validation_threads import Examiner
from tailrace_broker.replication.fetcher import FetcherParts
from tailrace_broker.replication.isr import IsrUpdates
from tailrace_broker.replication.replicas import Replicas
from tailrace_broker.topic_metrics import BrokerTopicMetrics
from tailrace_broker.topic_rights import TopicRights
from tailrace_broker.transactions.coordinators import Coordinators
from tailrace_broker.transactions.hanging import HangingTransactions
from tailrace_broker.transactions.open_transactions import LedTransactions
from tailrace_broker.waiting.purgatory import Purgatory


class OpenBroker:
    """A broker that runs."""

    def __init__(self, broker: Broker, lifecycle: Lifecycle, addresses: dict[str, str]) -> None:
        self.broker = broker
        self.addresses = addresses
        self.ready = lifecycle.unfenced

    def health(self) -> dict[str, bool]:
        """Metadata stale means the controller is away; the data plane goes on."""
        return {"log_dirs": bool(self.broker.storage.dirs)}


@asynccontextmanager
async def open_broker(config: Config, environment: Environment) -> AsyncIterator[OpenBroker]:
    """Yields once the listeners are bound; `ready` follows when the controller has unfenced this broker."""
    clock, log = environment.clock, environment.log
    async with open_metadata_follower(config, environment, f"broker-{config.node_id}") as follower:
        await follower.wait_for(lambda image: bool(image.cluster_id), timeout_ms=None)
        with open_log_dirs(config, environment, follower.image.cluster_id) as dirs, open_pace() as pace:
            storage = await in_thread(partial(open_storage, dirs, config, clock, follower.image))
            recovery_report.report_recovery(dirs, log)
            recovery_report.report_missing(dirs, follower.image, config.node_id, log)
            broker = build_broker(
                config, environment, follower, storage, worker=InProcess(InThreads(), open_pool(config))
            )
            cleaner = open_cleaner(broker, environment, pace)
            await broker.publisher.begin()
            async with (
                in_background(broker.publisher.recoveries.run()),
                open_listener(broker, follower, cleaner, config, environment) as listener,
            ):
                lifecycle = open_lifecycle(broker, follower, config, environment, listener.endpoints)
                watch = open_dir_watch(broker, lifecycle, environment)
                replicas = open_replicas(broker, follower, environment)
                previous_epoch = storage.previous_epoch
                async with in_background(watch.run()), in_background(replicas.run()):
                    async with (
                        in_background(broker.assignments.run()),
                        in_background(broker.dir_moves.run()),
                        in_background(lifecycle.run(previous_epoch)),
                        in_background(open_housekeeping(broker, environment).run()),
                        in_background(cleaner.run()),
                        in_background(listener.hanging.run()),
                    ):
                        yield OpenBroker(broker, lifecycle, listener.addresses)
                    if config.controlled_shutdown_enable:
                        await lifecycle.shut_down()
            await close_broker(broker, follower, lifecycle.broker_epoch)


def open_storage(dirs: list[LogDir], config: Config, clock: Clock, known: MetadataImage) -> Storage:
    """May have to look at every log, and to check some: not for the event loop."""
    storage = Storage(dirs, config, clock.wall_ms, known)
    storage.measure_tails()
    return storage


def build_broker(
    config: Config,
    environment: Environment,
    follower: MetadataFollower,
    storage: Storage,
    *,
    space: Callable[[str], tuple[int, int]] | None = None,
    worker: ColdWorker | None = None,
    accounts: Accounts | None = None,
) -> Broker:
    """What a broker keeps; nothing of it runs yet. The last three are others in tests."""
    clock, log, loop = environment.clock, environment.log, asyncio.get_running_loop()
    dynamic = DynamicBrokerConfig(config, lambda: follower.image)
    metrics = BrokerMetrics(environment.registry)
    pressure = DiskPressure(storage, config, space or space_of, log)
    node = Node(config.node_id, clock.monotonic_ms, config.replica_lag_time_max_ms)
    wakeups = WakeUps(node, Purgatory(clock, loop.call_soon), clock, storage.place_of)
    for log_dir in storage.configured:
        wakeups.flusher.relieve(log_dir.guard.open_files)
    recoveries = Recoveries(storage, lambda: dynamic.current.num_recovery_threads_per_data_dir, log)
    openings = Openings(clock.monotonic_ms, loop.call_soon)
    backoff = Backoff(clock, environment.random, first_ms=20, most_ms=1000)
    assignments = Assignments(config.node_id, lambda: node.broker_epoch, follower.ask_controller, backoff, log)
    replica_dirs = ReplicaDirs(config.node_id, lambda: follower.image, storage, accounts or assignments)
    topics = Topics(node, storage.open, storage.checkpointed, replica_dirs.place, recoveries, openings)
    BrokerTopicMetrics(environment.registry, topics.by_name)
    lookups = Lookups()
    dir_moves = DirMoves(
        config,
        clock,
        log,
        storage=storage,
        topics=topics,
        wakeups=wakeups,
        pressure=pressure,
        replica_dirs=replica_dirs,
        rate=partial(dynamic.rate, "replica.alter.log.dirs.io.max.bytes.per.second"),
        walk=lookups.walk,
    )
    gauges.count_dirs(metrics, pressure, storage, dir_moves)
    publisher = BrokerMetadataPublisher(
        follower,
        dynamic,
        log,
        topics=topics,
        storage=storage,
        pressure=pressure,
        wakeups=wakeups,
        replica_dirs=replica_dirs,
        dir_moves=dir_moves,
        recoveries=recoveries,
        openings=openings,
    )
    if not cached_image.goes_on(follower.image, node.node_id, storage.closed_epoch, storage.closed_offset):
        topics.hold_back()
    cold_reads = ColdReads(worker, lookups.walk)
    gauges.count_reads(metrics, cold_reads, lookups)
    gauges.count_metadata(metrics, follower)
    isr = IsrUpdates(node, follower.ask_controller, wakeups, metrics, replication_backoff(environment), log)
    return Broker(
        config=dynamic,
        storage=storage,
        topics=topics,
        wakeups=wakeups,
        publisher=publisher,
        isr=isr,
        dir_moves=dir_moves,
        assignments=assignments,
        pressure=pressure,
        lookups=lookups,
        cold_reads=cold_reads,
        metrics=metrics,
    )


async def close_broker(broker: Broker, follower: MetadataFollower, broker_epoch: int) -> None:
    """Ends the threads and closes the log dirs for the next life, in a thread.

    The listener, housekeeping and replication have ended. No log is closed before it is certain that nothing is
    appended to it any more.
    """
    await broker.publisher.end()
    image, partitions = follower.image, list(broker.topics.partitions())
    broker.publisher.openings.close()
    metadata_offset = cached_image.closing_offset(image, partitions)
    for partition in partitions:
        partition.resign()
    broker.cold_reads.close()
    broker.lookups.close()
    await broker.wakeups.flusher.close()
    await note_high_watermarks(broker.topics, broker.storage, partitions)
    await in_thread(partial(broker.storage.close, broker_epoch, metadata_offset))


def replication_backoff(environment: Environment) -> Backoff:
    """What followers and ISR changes wait after a failure."""
    return Backoff(environment.clock, environment.random, first_ms=10, most_ms=250)


def open_replicas(broker: Broker, follower: MetadataFollower, environment: Environment) -> Replicas:
    """The fetchers of followers, which follow each image from now on."""
    throttle = Throttle(
        partial(broker.config.rate, "follower.replication.throttled.rate"), environment.clock.monotonic_ms
    )
    parts = FetcherParts(
        node=broker.topics.node,
        config=broker.config,
        image=lambda: follower.image,
        storage=broker.storage,
        pressure=broker.pressure,
        wakeups=broker.wakeups,
        change_log=broker.publisher.change_log,
        throttle=throttle,
        metrics=broker.metrics,
        clock=environment.clock,
        boot_id=environment.boot_id,
        secret=environment.secret,
        log=environment.log,
    )
    replicas = Replicas(broker.topics, broker.isr, parts, partial(replication_backoff, environment))
    broker.publisher.subscribe(replicas.on_changes)
    gauges.count_replicas(broker.metrics, replicas)
    return replicas


@dataclass(frozen=True)
class DataPath:
    """Produce, Fetch and the ends of logs, as the listeners of a broker share them."""

    produce: FastProduce | PlainProduce
    plain_produce: PlainProduce
    fetch: FastFetch | PlainFetch
    ends: EndsPath
    large: Large
    examiner: Examiner
    fetch_parts: FetchParts

    def charged(self) -> dict[int, HotHandler]:
        """The hot handlers of limited clients."""
        limiting = LimitedRequests(self.produce.handle, self.plain_produce.handle, self.fetch.handle)
        return {ApiKey.PRODUCE: limiting.produce, ApiKey.FETCH: limiting.fetch}


@contextmanager
def open_data_path(
    broker: Broker, follower: MetadataFollower, coordinators: Coordinators, config: Config, environment: Environment
) -> Iterator[DataPath]:
    """Builds the paths of Produce and Fetch; a thread of theirs ends with them."""
    clock, large, examiner = environment.clock, Large(), Examiner()
    hints = Hints(lambda: follower.image, broker.topics, broker.config)
    rights = TopicRights(broker.topics, follower)
    produce_parts = ProduceParts(
        topics=broker.topics,
        wakeups=broker.wakeups,
        pressure=broker.pressure,
        image=lambda: follower.image,
        examiner=examiner,
        coordinators=coordinators,
        answers=ProduceAnswers(hints, broker.metrics),
        config=broker.config,
        metrics=broker.metrics,
        clock=clock,
        rights=rights,
    )
    many_rows = ManyRowsProduce(produce_parts, large)
    plain_produce = PlainProduce(produce_parts, many_rows.handle)
    produce = FastProduce(produce_parts, plain_produce) if config.broker_fast_path else plain_produce
    ends = EndsPath(broker.topics, produce.end_of_read)
    fetch_parts = FetchParts(
        topics=broker.topics,
        purgatory=broker.wakeups.purgatory,
        cold_reads=broker.cold_reads,
        config=broker.config,
        hints=hints,
        isr=broker.isr,
        leader_throttle=Throttle(partial(broker.config.rate, "leader.replication.throttled.rate"), clock.monotonic_ms),
        metrics=broker.metrics,
        clock=clock,
        new_session_id=partial(environment.random.randrange, 1, 2**31),  # never 0 (KIP-227)
        rights=rights,
    )
    plain_fetch = PlainFetch(fetch_parts, FetchSessions(config.max_incremental_fetch_session_cache_slots))
    fetch = FastFetch(fetch_parts, plain_fetch) if config.broker_fast_path else plain_fetch
    try:
        yield DataPath(produce, plain_produce, fetch, ends, large, examiner, fetch_parts)
    finally:
        many_rows.close()
        examiner.close()


@dataclass(frozen=True)
class BrokerListener:
    """What serves the sockets of a broker."""

    server: Server  # of the internal listener
    endpoints: list[Endpoint]
    addresses: dict[str, str]
    data_path: DataPath
    adopted: Adopted
    hanging: HangingTransactions


@asynccontextmanager
async def open_listener(
    broker: Broker, follower: MetadataFollower, cleaner: Cleaner, config: Config, environment: Environment
) -> AsyncIterator[BrokerListener]:
    """Binds the internal listener, a Unix socket or the address of internal.listen instead; then that of clients."""
    clock, topics, metrics = environment.clock, broker.topics, broker.metrics
    coordinators = Coordinators(follower, environment.boot_id, environment.secret, config.request_timeout_ms)
    open_transactions = LedTransactions(topics, broker.config, clock)
    hanging = HangingTransactions(open_transactions.by_partition, coordinators, clock)
    PartitionMetrics(environment.registry, open_transactions.count, hanging.by_partition)
    producer_ids = ProducerIds(topics.node, follower.ask_controller)
    memory = RoleMemory(RequestMemory(config.queued_max_request_bytes))
    RoleMemoryMetrics(environment.registry, memory)
    async with AsyncExitStack() as stack:
        stack.callback(producer_ids.close)
        data_path = stack.enter_context(open_data_path(broker, follower, coordinators, config, environment))
        quotas = await stack.enter_async_context(
            open_quotas(config, environment, follower, broker_as_holder(config.node_id), thread_time_ms)
        )
        of_clients = client_handlers(
            topics=topics,
            storage=broker.storage,
            dir_moves=broker.dir_moves,
            wakeups=broker.wakeups,
            lookups=broker.lookups,
            coordinators=coordinators,
            follower=follower,
            config=broker.config,
            clock=clock,
        )
        authorizer = environment.authorizer or open_authorizer(config, follower, environment)
        service = service_of(data_path, of_clients, memory, authorizer, follower, config, environment)
        relay, listeners = GatewayRelay(follower, environment.boot_id, memory.answers), listeners_of(config)
        sasl = stack.enter_context(open_sasl(config, environment, lambda: follower.image, mechanisms_of(listeners)))
        request_metrics = RequestMetrics(clock.monotonic_ms).register(environment.registry)
        public = for_clients(service, relay, sasl, config, request_metrics)
        limited = LimitedClients(quotas, config.node_id, public, data_path.charged())
        adopted = Adopted(Server(public), relay, sasl, environment.log, limited)
        follower.subscribe(adopted.image_changed)
        of_services = service_handlers(
            topics=topics,
            wakeups=broker.wakeups,
            lookups=broker.lookups,
            producer_ids=producer_ids,
            open_transactions=open_transactions,
            hanging=hanging,
            cleaner=cleaner,
            adopted=adopted,
            follower=follower,
            config=broker.config,
            clock=clock,
        )
        internal = replace(service, handlers=of_clients | of_services, apis=INTERNAL_APIS)
        internal = with_logins(internal, environment.secret, clock, environment.registry)
        address = internal_address(config, environment.run_dir, f"broker-{config.node_id}", environment.secret)
        server = await serve([address], internal)
        stack.push_async_callback(server.close)
        stack.push_async_callback(coordinators.close)
        stack.push_async_callback(adopted.close)
        gauges.count_requests(metrics, broker.wakeups, data_path.examiner, server, adopted)
        throttled = ThrottledConnections(quotas.admit, clock, connections_per_ip(config))
        stack.callback(throttled.close)
        gauges.count_quotas(metrics, limited, throttled)
        endpoints = advertised_endpoints(config, server.addresses, environment.boot_id)
        addresses = {"internal": str(server.addresses[0])}
        # There is no other listener with gateway.advertise=brokers.
        listener, own_listener = listeners[0], config.gateway_advertise == "brokers"
        handshakes = open_handshakes(
            listener.tls if own_listener else None, listener.principal_rules, clock, environment.log
        )
        gauges.count_handshakes(metrics, handshakes)
        if own_listener:
            direct = DirectClients(limited, throttled, sasl, relay.forget, config, handshakes)
            follower.subscribe(direct.image_changed)
            port = client_port(follower.image, config.node_id)
            encryption = None if handshakes is None else Encryption(handshakes, direct.refused)
            client = await serve_clients(public, direct, listener, port, encryption)
            stack.push_async_callback(client.close)
            endpoints.append(client_endpoint(listener, client))
            addresses["client"] = ",".join(str(address) for address in client.addresses)
        yield BrokerListener(server, endpoints, addresses, data_path, adopted, hanging)


def service_of(
    data_path: DataPath,
    handlers: dict[int, Handler],
    memory: RoleMemory,
    authorizer: Authorizer | None,
    follower: MetadataFollower,
    config: Config,
    environment: Environment,
) -> Service:
    """What every listener of the broker has in common."""
    return Service(
        role=None,  # each handler has what it uses
        handlers=handlers,
        apis=APIS,
        log=environment.log,
        hot={
            ApiKey.PRODUCE: data_path.produce.handle,
            ApiKey.FETCH: data_path.fetch.handle,
            ApiKey.LIST_OFFSETS: data_path.ends.handle,
        },
        end_of_read=data_path.produce.end_of_read,
        max_frame_bytes=config.socket_request_max_bytes,
        large=data_path.large,
        memory=memory,
        authorizer=authorizer,
        topic_name=topic_names(lambda: follower.image),
        buffers=SocketBuffers(config.socket_receive_buffer_bytes, config.socket_send_buffer_bytes),
    )


def open_lifecycle(
    broker: Broker,
    follower: MetadataFollower,
    config: Config,
    environment: Environment,
    endpoints: list[Endpoint],
) -> Lifecycle:
    """Builds what registers this life of the broker."""
    registration = BrokerRegistration(
        config.node_id,
        UUID(int=environment.random.getrandbits(128), version=4),
        endpoints,
        config.broker_rack,
        [log_dir.directory_id for log_dir in broker.storage.dirs],
    )

    async def on_epoch(epoch: int) -> None:
        await broker.publisher.on_epoch(epoch)
        broker.assignments.begin()

    return Lifecycle(
        follower,
        environment.clock,
        Backoff(environment.clock, environment.random, first_ms=20, most_ms=1000),
        registration,
        environment.log,
        interval_ms=config.broker_heartbeat_interval_ms,
        on_epoch=on_epoch,
        on_unreachable=broker.publisher.on_unreachable,
    )


def open_dir_watch(broker: Broker, lifecycle: Lifecycle, environment: Environment) -> DirWatch:
    """The watch over log dirs that fail."""
    on_dir_failed, config = broker.publisher.on_dir_failed, broker.config
    return DirWatch(broker.storage, on_dir_failed, lifecycle, config, environment.clock, environment.log)


def open_housekeeping(broker: Broker, environment: Environment) -> Housekeeping:
    """Retention, flushes and checkpoints."""
    return Housekeeping(
        broker.topics,
        broker.storage,
        broker.wakeups.flusher,
        broker.pressure,
        broker.config,
        environment.clock,
        environment.log,
    )


def cleaner_of(broker: Broker, clock: Clock, backoff: Backoff, workers: Workers, log: FilteringBoundLogger) -> Cleaner:
    """The cleaner of this broker's logs."""
    return Cleaner(
        lambda: broker.config.current,
        clock,
        backoff,
        workers,
        log,
        now_ms=clock.wall_ms,
        topics=broker.topics,
        storage=broker.storage,
        dir_moves=broker.dir_moves,
        pressure=broker.pressure,
    )


def open_cleaner(broker: Broker, environment: Environment, pace: int) -> Cleaner:
    """Compaction; its processes are started when logs are dirty enough."""
    backoff = Backoff(environment.clock, environment.random, first_ms=1000, most_ms=60_000)
    workers = Workers(lambda: ProcessWorker(pace))
    cleaner = cleaner_of(broker, environment.clock, backoff, workers, environment.log)
    gauges.count_cleaner(broker.metrics, cleaner, workers)
    return cleaner


def open_pool(config: Config) -> BlockPool | None:
    """Memory for cold reads; none where the config leaves too little for a block, or the kernel gives none."""
    size_bytes = config.log_cold_read_buffer_bytes
    with suppress(OSError):
        return BlockPool(size_bytes) if size_bytes >= BLOCK_BYTES else None
    return None


def space_of(path: str) -> tuple[int, int]:
    """(total, usable) bytes of the file system that holds path, as DescribeLogDirs says them."""
    disk = os.statvfs(path)
    return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize


role = Role("broker", open_broker)

__all__ = ["open_broker", "role"]
