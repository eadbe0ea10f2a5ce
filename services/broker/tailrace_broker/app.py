"""Opens a broker: log dirs, metadata, listeners, registration; closed in reverse. Builds every object of the role."""

from __future__ import annotations

import os
import resource
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

from tailrace.clock import Clock
from tailrace.config import Config
from tailrace.kafka.security_protocols import SECURITY_PROTOCOLS
from tailrace.log.directory.log_dir import LogDir, LogDirRefused
from tailrace.log.filesystem.guard import Guard
from tailrace.log.filesystem.open_files import OpenFiles
from tailrace.log.filesystem.port import Filesystem
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address
from tailrace.net.authentication.metrics import open_authentication
from tailrace.net.background import beside, in_thread
from tailrace.net.backoff import Backoff
from tailrace.net.dispatch import Handler, HotHandler, Service
from tailrace.net.large import Large
from tailrace.net.limits.deadlines import ConnectionDeadlines
from tailrace.net.limits.request_memory import RequestMemory
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.limits.role_memory_metrics import RoleMemoryMetrics
from tailrace.net.members.internal import advertised_endpoints, internal_address
from tailrace.net.members.lease_holders import broker_as_holder
from tailrace.net.metadata.follower import MetadataFollower, open_metadata_follower
from tailrace.net.quotas.opening import open_quotas
from tailrace.net.quotas.throttled_connections import ThrottledConnections
from tailrace.net.server import Encryption, Server, serve
from tailrace.net.tls.handshakes import open_handshakes
from tailrace.net.transport.buffers import SocketBuffers
from tailrace.private_files import FOLDER_MODE, private_folder
from tailrace.processor_time import thread_time_ms
from tailrace.runtime.role import Environment, Role
from tailrace.wire.apis import APIS, INTERNAL_APIS, ApiKey
from tailrace_broker import gauges
from tailrace_broker.broker import CLIENT_ENDPOINT, Broker
from tailrace_broker.cold_reads.pool import BLOCK_BYTES, BlockPool
from tailrace_broker.cold_reads.reads import ColdReads
from tailrace_broker.cold_reads.worker import InProcess, InThreads
from tailrace_broker.compaction.cleaner import Cleaner
from tailrace_broker.compaction.worker import ProcessWorker, Workers, open_pace
from tailrace_broker.connections.adopted import Adopted
from tailrace_broker.connections.client_listener import GatewayRelay
from tailrace_broker.connections.limited import DirectClients, LimitedClients
from tailrace_broker.connections.limited_requests import LimitedRequests
from tailrace_broker.directories.assignments import Assignments
from tailrace_broker.directories.disk_pressure import DiskPressure
from tailrace_broker.directories.failure import DirWatch
from tailrace_broker.directories.storage import Storage
from tailrace_broker.fetch.fast import FastFetch
from tailrace_broker.fetch.plain import PlainFetch
from tailrace_broker.fetch.sessions import FetchSessions
from tailrace_broker.handlers import (
    adopt_connection,
    alter_replica_log_dirs,
    delete_records,
    describe_cleaner,
    describe_configs,
    describe_log_dirs,
    describe_open_transactions,
    describe_producers,
    fence_shard,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
    write_txn_markers,
)
from tailrace_broker.housekeeping import Housekeeping
from tailrace_broker.lifecycle import BrokerRegistration, Lifecycle
from tailrace_broker.metrics import BrokerMetrics
from tailrace_broker.partitions import recovery_report
from tailrace_broker.produce.fast import FastProduce
from tailrace_broker.produce.many_rows import ManyRowsProduce
from tailrace_broker.produce.plain import PlainProduce
from tailrace_broker.replication.replicas import Replicas
from tailrace_broker.transactions.coordinators import Coordinators
from tailrace_broker.transactions.hanging import HangingTransactions

HANDLERS: dict[int, Handler] = {
    ApiKey.LIST_OFFSETS: list_offsets.handle,
    ApiKey.DELETE_RECORDS: delete_records.handle,
    ApiKey.INIT_PRODUCER_ID: init_producer_id.handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
    ApiKey.WRITE_TXN_MARKERS: write_txn_markers.handle,
    ApiKey.DESCRIBE_CONFIGS: describe_configs.handle,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.handle,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs.handle,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers.handle,
    ApiKey.FENCE_SHARD: fence_shard.handle,
    ApiKey.DESCRIBE_CLEANER: describe_cleaner.handle,
    ApiKey.DESCRIBE_OPEN_TRANSACTIONS: describe_open_transactions.handle,
    ApiKey.ADOPT_CONNECTION: adopt_connection.handle,
}
# What a client may ask a broker directly; DescribeConfigs and the like go to the gateway, which knows whom to ask.
CLIENT_APIS = (
    ApiKey.LIST_OFFSETS,
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_PRODUCERS,
)


class OpenBroker:
    """A broker that runs."""

    def __init__(self, broker: Broker, lifecycle: Lifecycle, addresses: dict[str, str]) -> None:
        self.broker = broker
        self.addresses = addresses
        self.ready = lifecycle.unfenced
        self.before_metrics = broker.metrics.prepare

    def health(self) -> dict[str, bool]:
        """Metadata stale means the controller is away; the data plane goes on."""
        return {"log_dirs": bool(self.broker.storage.dirs)}


@contextmanager
def open_log_dirs(config: Config, environment: Environment, cluster_id: str) -> Iterator[list[LogDir]]:
    """Locks and opens every log dir; without `log.dirs` there is one under the data directory.

    One that cannot be read is offline and the others serve, as in Kafka; LogDirRefused if none can, or two are one.
    The body closes them; if it fails they are given up as they are, which is an unclean shutdown.
    """
    paths = config.log_dirs or (str(environment.data_dir / f"broker-{config.node_id}"),)
    refuse_repeated(paths)
    opened: list[LogDir] = []
    filesystem = RealFilesystem(OpenFiles(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
    try:
        for path in (str(Path(path).absolute()) for path in paths):  # as Kafka names them
            opened.append(_open_log_dir(filesystem, path, config, environment, cluster_id))
        refuse_unusable(opened)
        yield opened
    except BaseException:
        for log_dir in opened:
            log_dir.release()
        raise


def _open_log_dir(
    filesystem: Filesystem, path: str, config: Config, environment: Environment, cluster_id: str
) -> LogDir:
    try:
        Path(path).mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        opened = LogDir.open(
            Guard(filesystem),
            path,
            node_id=config.node_id,
            cluster_id=cluster_id,
            now_ms=environment.clock.wall_ms(),
            producer_id_expiration_ms=config.producer_id_expiration_ms,
        )
        private_folder(Path(path))  # it is a log directory, and no folder of all that was named by mistake
        return opened
    except OSError as failed:
        environment.log.error("a log directory is offline", log_dir=path, why=str(failed))
        return LogDir.unreadable(path, failed)


def refuse_repeated(paths: Iterable[str]) -> None:
    """LogDirRefused where two of log.dirs are one: else it would be said that another process has locked the second."""
    named: dict[str, str] = {}
    for path in paths:
        present = os.path.realpath(path)
        if present in named:
            raise LogDirRefused(f"log.dirs names one directory twice: {named[present]} and {path}")
        named[present] = path


def refuse_unusable(dirs: list[LogDir]) -> None:
    """LogDirRefused where no dir is online, or two have one id: one is a copy of the other, and nobody knows which."""
    online = [log_dir for log_dir in dirs if log_dir.failure is None]
    if not online:
        raise LogDirRefused("no log directory can be used: " + "; ".join(str(log_dir.failure) for log_dir in dirs))
    for log_dir, other in pairwise(sorted(online, key=lambda one: one.directory_id)):
        if log_dir.directory_id == other.directory_id:
            raise LogDirRefused(
                f"the log directories {log_dir.path} and {other.path} have the same directory.id: one is a copy"
            )


@asynccontextmanager
async def open_broker(config: Config, environment: Environment) -> AsyncIterator[OpenBroker]:
    """Yields once the listeners are bound; `ready` follows when the controller has unfenced this broker."""
    clock, log = environment.clock, environment.log
    async with open_metadata_follower(config, environment, f"broker-{config.node_id}") as follower:
        await follower.wait_for(lambda image: bool(image.cluster_id), timeout_ms=None)
        with open_log_dirs(config, environment, follower.image.cluster_id) as dirs, open_pace() as pace:
            metrics = BrokerMetrics(environment.registry)
            storage = await in_thread(partial(open_storage, dirs, config, clock, follower.image))
            recovery_report.tell_recovery(dirs, log)
            recovery_report.tell_missing(dirs, follower.image, config.node_id, log)
            pressure = DiskPressure(storage, config, space_of, log)
            broker = Broker(
                config,
                clock,
                environment.random,
                storage=storage,
                follower=follower,
                metrics=metrics,
                pressure=pressure,
                log=log,
                cold_reads=ColdReads(InProcess(InThreads(), open_pool(config))),
            )
            await broker.begin()
            async with (
                beside(broker.recoveries.run()),
                open_listener(broker, config, environment) as (server, endpoints, addresses),
            ):
                gauges.count_broker(metrics, broker, server)
                lifecycle = open_lifecycle(follower, config, environment, endpoints, storage)
                assignments = await open_assignments(broker, lifecycle, environment)
                watch = DirWatch(broker, lifecycle, clock, log)
                replicas = Replicas(broker, clock, environment.random, environment.boot_id, log, environment.secret)
                gauges.count_replicas(metrics, replicas)
                assert broker.coordinators is not None  # of the listener
                hanging = HangingTransactions(broker.open_transactions, broker.coordinators, clock)
                broker.hanging = hanging
                gauges.count_hanging(metrics, hanging)
                gauges.count_dirs(metrics, pressure, dirs)
                previous_epoch = storage.previous_epoch
                async with beside(watch.run()), beside(replicas.run()):
                    async with (
                        beside(assignments.run()),
                        beside(broker.dir_moves.run()),
                        beside(lifecycle.run(previous_epoch)),
                        beside(Housekeeping(broker, clock, log).run()),
                        beside(open_cleaner(broker, environment, pace).run()),
                        beside(hanging.run()),
                    ):
                        yield OpenBroker(broker, lifecycle, addresses)
                    if config.controlled_shutdown_enable:
                        await lifecycle.shut_down()
            await broker.close(lifecycle.broker_epoch)


def open_storage(dirs: list[LogDir], config: Config, clock: Clock, known: MetadataImage) -> Storage:
    """May have to look at every log, and to check some: not for the event loop."""
    storage = Storage(dirs, config, clock.wall_ms, known)
    storage.measure_tails()
    return storage


@asynccontextmanager
async def open_listener(
    broker: Broker, config: Config, environment: Environment
) -> AsyncIterator[tuple[Server, list[Endpoint], dict[str, str]]]:
    """Binds the internal listener: a Unix socket, or the address of internal.listen instead."""
    coordinators = Coordinators(broker.follower, environment.boot_id, environment.secret, config.request_timeout_ms)
    broker.coordinators = coordinators
    large = Large()
    many_rows = ManyRowsProduce(broker, large)
    plain_produce = PlainProduce(broker, many_rows.handle)
    produce = FastProduce(broker, plain_produce) if config.broker_fast_path else plain_produce
    ends = list_offsets.EndsPath(broker, produce.end_of_read)
    sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots)
    plain_fetch = PlainFetch(broker, sessions, broker.cold_reads)
    fetch = FastFetch(broker, plain_fetch, broker.cold_reads) if config.broker_fast_path else plain_fetch
    memory = RoleMemory(RequestMemory(config.queued_max_request_bytes))
    RoleMemoryMetrics(environment.registry, memory)
    authentication = open_authentication(environment.secret, environment.registry, environment.log)
    service = Service(
        role=broker,
        handlers=HANDLERS,
        apis=INTERNAL_APIS,
        log=environment.log,
        hot={ApiKey.PRODUCE: produce.handle, ApiKey.FETCH: fetch.handle, ApiKey.LIST_OFFSETS: ends.handle},
        end_of_read=produce.end_of_read,
        max_frame_bytes=config.socket_request_max_bytes,
        large=large,
        memory=memory,
        authentication=authentication,
        buffers=SocketBuffers(config.socket_receive_buffer_bytes, config.socket_send_buffer_bytes),
    )
    async with AsyncExitStack() as stack:
        server = await serve(
            [internal_address(config, environment.run_dir, f"broker-{config.node_id}", environment.secret)], service
        )
        stack.callback(many_rows.close)
        stack.push_async_callback(server.close)
        stack.push_async_callback(coordinators.close)
        relay = GatewayRelay(broker.follower, environment.boot_id, memory.answers)
        public = for_clients(service, relay, config)
        holder_id = broker_as_holder(config.node_id)
        quotas = await stack.enter_async_context(
            open_quotas(config, environment, broker.follower, holder_id, thread_time_ms)
        )
        limiting = LimitedRequests(produce.handle, plain_produce.handle, fetch.handle)
        charging: dict[int, HotHandler] = {ApiKey.PRODUCE: limiting.produce, ApiKey.FETCH: limiting.fetch}
        limited = LimitedClients(quotas, config.node_id, public, charging)
        broker.adopted = Adopted(Server(public), relay, environment.log, limited)
        broker.follower.subscribe(broker.adopted.image_changed)
        stack.push_async_callback(broker.adopted.close)
        throttled = ThrottledConnections(quotas.admit, environment.clock)
        stack.callback(throttled.close)
        gauges.count_quotas(broker.metrics, limited, throttled)
        own_listener = config.gateway_advertise == "brokers"
        handshakes = open_handshakes(config, environment.clock, environment.log) if own_listener else None
        gauges.count_handshakes(broker.metrics, handshakes)
        endpoints = advertised_endpoints(config, server.addresses, environment.boot_id)
        addresses = {"internal": str(server.addresses[0])}
        if own_listener:
            direct = DirectClients(limited, throttled, config)
            broker.follower.subscribe(direct.image_changed)
            port = client_port(broker.image, config.node_id)
            encryption = None if handshakes is None else Encryption(handshakes, direct.refused)
            client = await serve_clients(public, direct, config, port, encryption)
            stack.push_async_callback(client.close)
            protocol = SECURITY_PROTOCOLS[config.gateway_security_protocol]
            endpoints.append(Endpoint(CLIENT_ENDPOINT, client.addresses[0].host, client.addresses[0].port, protocol))
            addresses["client"] = ",".join(str(address) for address in client.addresses)
        yield server, endpoints, addresses


def for_clients(service: Service, relay: GatewayRelay, config: Config) -> Service:
    """What clients are served at the broker itself; what is not its to answer goes on to a gateway."""
    return replace(
        service,
        handlers={key: handler for key, handler in HANDLERS.items() if key in CLIENT_APIS},
        apis=APIS,
        internal=False,
        authentication=None,
        listener=CLIENT_ENDPOINT,
        relay=relay.ask,
        on_close=relay.forget,
        max_connections=config.max_connections,
        deadlines=ConnectionDeadlines(config.connections_max_idle_ms, head_ms=10_000, dribble_ms=30_000),
        counts=service.role.metrics.requests,
        answers_after_end=True,
        on_end=relay.ended,
    )


def client_port(image: MetadataImage, node_id: int) -> int:
    """The port of this broker's earlier life, 0 if there was none: its clients come back there."""
    broker = image.brokers.get(node_id)
    endpoint = None if broker is None else broker.endpoint(CLIENT_ENDPOINT)
    return 0 if endpoint is None else endpoint.port


async def serve_clients(
    public: Service, direct: DirectClients, config: Config, port: int, encryption: Encryption | None
) -> Server:
    """gateway.advertise=brokers: clients come here, by this port if it is free."""
    if port:
        with suppress(OSError):
            return await serve(
                [Address(host, port) for host in config.gateway_listen], public, direct.accepted, encryption
            )
    first, *others = config.gateway_listen
    server = await serve([Address(first, 0)], public, direct.accepted, encryption)
    for host in others:
        await server.listen(Address(host, server.addresses[0].port))
    return server


def open_lifecycle(
    follower: MetadataFollower,
    config: Config,
    environment: Environment,
    endpoints: list[Endpoint],
    storage: Storage,
) -> Lifecycle:
    """Builds what registers this life of the broker."""
    incarnation_id = UUID(int=environment.random.getrandbits(128), version=4)
    registration = BrokerRegistration(
        config.node_id,
        incarnation_id,
        endpoints,
        config.broker_rack,
        [log_dir.directory_id for log_dir in storage.dirs],
    )
    lifecycle = Lifecycle(
        follower,
        environment.clock,
        Backoff(environment.clock, environment.random, first_ms=20, most_ms=1000),
        registration,
        environment.log,
    )
    lifecycle.interval_ms = config.broker_heartbeat_interval_ms
    return lifecycle


async def open_assignments(broker: Broker, lifecycle: Lifecycle, environment: Environment) -> Assignments:
    """Builds what tells the controller where replicas lie; it begins with the first epoch."""
    assignments = Assignments(
        broker.node_id,
        lambda: lifecycle.broker_epoch,
        broker.follower.ask_controller,
        Backoff(environment.clock, environment.random, first_ms=20, most_ms=1000),
        environment.log,
    )

    async def on_epoch(epoch: int) -> None:
        await broker.on_epoch(epoch)
        assignments.begin()

    lifecycle.on_epoch = on_epoch
    lifecycle.on_unreachable = broker.on_unreachable
    await broker.account_to(assignments)
    return assignments


def cleaner_of(broker: Broker, clock: Clock, backoff: Backoff, workers: Workers, log: Any) -> Cleaner:
    """The cleaner of this broker's logs."""
    return Cleaner(
        lambda: broker.config,
        clock,
        backoff,
        workers,
        log,
        now_ms=broker.now_ms,
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
    broker.cleaner = cleaner
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

__all__ = ["CLIENT_ENDPOINT", "HANDLERS", "open_broker", "role"]
