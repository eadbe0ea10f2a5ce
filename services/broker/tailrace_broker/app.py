"""Opens a broker: log dirs, metadata, listeners, registration; closed in reverse. Builds every object of the role."""

from __future__ import annotations

import os
import resource
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

from tailrace.config import Config
from tailrace.log.filesystem import Filesystem, RealFilesystem
from tailrace.log.guard import Guard
from tailrace.log.log import Log
from tailrace.log.logs import LogDir, LogDirRefused
from tailrace.log.open_files import OpenFiles
from tailrace.log.pressure import Level, Pressure
from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address
from tailrace.net.background import beside
from tailrace.net.backoff import Backoff
from tailrace.net.dispatch import Handler, Service
from tailrace.net.endpoints import endpoint_of
from tailrace.net.internal import internal_address
from tailrace.net.metadata_follower import MetadataFollower, open_metadata_follower
from tailrace.net.patience import Patience
from tailrace.net.server import Server, serve
from tailrace.runtime.role import Environment, Role
from tailrace.wire.apis import APIS, INTERNAL_APIS, ApiKey
from tailrace_broker.adopted import Adopted
from tailrace_broker.assignments import Assignments
from tailrace_broker.broker import CLIENT_ENDPOINT, Broker
from tailrace_broker.cleaner import Cleaner
from tailrace_broker.cleaner_worker import ProcessWorker
from tailrace_broker.client_listener import GatewayRelay
from tailrace_broker.dir_watch import DirWatch
from tailrace_broker.disk_pressure import DiskPressure
from tailrace_broker.fetch_sessions import FetchSessions
from tailrace_broker.handlers import (
    adopt_connection,
    alter_replica_log_dirs,
    delete_records,
    describe_cleaner,
    describe_configs,
    describe_log_dirs,
    fence_shard,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
)
from tailrace_broker.handlers.fetch import FetchPath
from tailrace_broker.handlers.produce import ProducePath
from tailrace_broker.housekeeping import Housekeeping
from tailrace_broker.lifecycle import Lifecycle, Registration
from tailrace_broker.metrics import BrokerMetrics
from tailrace_broker.replication.replicas import Replicas
from tailrace_broker.storage import Storage

HANDLERS: dict[int, Handler] = {
    ApiKey.LIST_OFFSETS: list_offsets.handle,
    ApiKey.DELETE_RECORDS: delete_records.handle,
    ApiKey.INIT_PRODUCER_ID: init_producer_id.handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
    ApiKey.DESCRIBE_CONFIGS: describe_configs.handle,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs.handle,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
    ApiKey.FENCE_SHARD: fence_shard.handle,
    ApiKey.DESCRIBE_CLEANER: describe_cleaner.handle,
    ApiKey.ADOPT_CONNECTION: adopt_connection.handle,
}
# What a client may ask a broker directly; DescribeConfigs and the like go to the gateway, which knows whom to ask.
CLIENT_APIS = (
    ApiKey.LIST_OFFSETS,
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.DESCRIBE_LOG_DIRS,
)


_WORTH_A_LINE = 16 << 20


class OpenBroker:
    """A broker that runs."""

    def __init__(self, broker: Broker, lifecycle: Lifecycle, addresses: dict[str, str]) -> None:
        self.broker = broker
        self.addresses = addresses
        self.ready = lifecycle.unfenced

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
    opened: list[LogDir] = []
    filesystem = RealFilesystem(OpenFiles(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
    try:
        for path in paths:
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
        Path(path).mkdir(parents=True, exist_ok=True)
        return LogDir.open(
            Guard(filesystem),
            path,
            node_id=config.node_id,
            cluster_id=cluster_id,
            now_ms=environment.clock.wall_ms(),
            producer_id_expiration_ms=config.producer_id_expiration_ms,
        )
    except OSError as failed:
        environment.log.error("a log directory is offline", log_dir=path, why=str(failed))
        return LogDir.unreadable(path, failed)


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
        with open_log_dirs(config, environment, follower.image.cluster_id) as dirs:
            metrics = BrokerMetrics(environment.registry)
            storage = Storage(dirs, config, clock.wall_ms)
            tell_recovery(dirs, log)
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
            )
            async with open_listener(broker, config, environment) as (server, endpoints, addresses):
                count(metrics, broker, server)
                lifecycle = open_lifecycle(follower, config, environment, endpoints, storage)
                assignments = open_assignments(broker, lifecycle, environment)
                watch = DirWatch(broker, lifecycle, clock, log)
                replicas = Replicas(broker, clock, environment.random, environment.boot_id, log)
                count_replicas(metrics, replicas)
                count_dirs(metrics, pressure, dirs)
                previous_epoch = storage.previous_epoch
                async with beside(watch.run()), beside(replicas.run()):
                    async with (
                        beside(assignments.run()),
                        beside(broker.dir_moves.run()),
                        beside(lifecycle.run(previous_epoch)),
                        beside(Housekeeping(broker, clock, log).run()),
                        beside(open_cleaner(broker, environment).run()),
                    ):
                        yield OpenBroker(broker, lifecycle, addresses)
                    if config.controlled_shutdown_enable:
                        await lifecycle.shut_down(timeout_ms=2000)
            broker.producer_ids.close()
            broker.cold_reads.close()
            broker.flusher.close()
            storage.close(lifecycle.broker_epoch)


@asynccontextmanager
async def open_listener(
    broker: Broker, config: Config, environment: Environment
) -> AsyncIterator[tuple[Server, list[Endpoint], dict[str, str]]]:
    """Binds the internal listener: a Unix socket where there is a run directory, and TCP on the loopback.

    With internal.listen it is that address alone.
    """
    produce = ProducePath(broker)
    ends = list_offsets.EndsPath(broker, produce.end_of_read)
    fetch = FetchPath(broker, FetchSessions(config.max_incremental_fetch_session_cache_slots), broker.cold_reads)
    service = Service(
        role=broker,
        handlers=HANDLERS,
        apis=INTERNAL_APIS,
        log=environment.log,
        hot={ApiKey.PRODUCE: produce.handle, ApiKey.FETCH: fetch.handle, ApiKey.LIST_OFFSETS: ends.handle},
        end_of_read=produce.end_of_read,
        max_frame_bytes=config.socket_request_max_bytes,
    )
    wanted = [internal_address(config, environment.run_dir, f"broker-{config.node_id}")]
    if wanted[0].is_unix:
        wanted.insert(0, Address("127.0.0.1", 0))
    async with AsyncExitStack() as stack:
        server = await serve(wanted, service)
        stack.push_async_callback(server.close)
        relay = GatewayRelay(broker.follower, environment.boot_id)
        public = for_clients(service, relay, config)
        broker.adopted = Adopted(Server(public), relay, broker.image, environment.log)
        broker.follower.subscribe(broker.adopted.image_changed)
        stack.push_async_callback(broker.adopted.close)
        tcp = server.addresses[0]
        endpoints = [endpoint_of(address, environment.boot_id) for address in server.addresses]
        addresses = {"internal": str(server.addresses[-1]), "tcp": str(tcp)}
        if config.gateway_advertise == "brokers":
            client = await serve_clients(public, config)
            stack.push_async_callback(client.close)
            endpoints.append(Endpoint(CLIENT_ENDPOINT, client.addresses[0].host, client.addresses[0].port))
            addresses["client"] = ",".join(str(address) for address in client.addresses)
        yield server, endpoints, addresses


def for_clients(service: Service, relay: GatewayRelay, config: Config) -> Service:
    """What clients are served at the broker itself; what is not its to answer goes on to a gateway."""
    return replace(
        service,
        handlers={key: handler for key, handler in HANDLERS.items() if key in CLIENT_APIS},
        apis=APIS,
        internal=False,
        listener=CLIENT_ENDPOINT,
        relay=relay.ask,
        on_close=relay.forget,
        max_connections=config.max_connections,
        patience=Patience(config.connections_max_idle_ms, head_ms=10_000, dribble_ms=30_000),
        counts=service.role.metrics.requests,
        answers_after_end=True,
        on_end=relay.ended,
    )


async def serve_clients(public: Service, config: Config) -> Server:
    """gateway.advertise=brokers: clients come here."""
    first, *others = config.gateway_listen
    server = await serve([Address(first, 0)], public)
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
    registration = Registration(
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


def open_assignments(broker: Broker, lifecycle: Lifecycle, environment: Environment) -> Assignments:
    """Builds what tells the controller where replicas lie; it begins with the first epoch."""
    assignments = Assignments(
        broker.node_id,
        lambda: lifecycle.broker_epoch,
        broker.follower.ask_controller,
        Backoff(environment.clock, environment.random, first_ms=20, most_ms=1000),
        environment.log,
    )

    def on_epoch(epoch: int) -> None:
        broker.on_epoch(epoch)
        assignments.begin()

    lifecycle.on_epoch = on_epoch
    broker.account_to(assignments)
    return assignments


def count(metrics: BrokerMetrics, broker: Broker, server: Server) -> None:
    """The broker's gauges, read when scraped."""
    topics = broker.topics
    metrics.counters["returned_connections"] = (
        "Connections given back to their gateway, for a quota",
        lambda: 0 if broker.adopted is None else broker.adopted.returned_count,
    )
    metrics.counters["cold_reads"] = ("Fetches that had to wait for the disk", lambda: broker.cold_reads.count)
    metrics.gauges.update(
        {
            "partition_count": ("Partitions with a replica here", lambda: sum(1 for _ in topics.partitions())),
            "leader_count": (
                "Partitions led here",
                lambda: sum(p.leader == broker.node_id for p in topics.partitions()),
            ),
            "fetch_purgatory_size": ("Fetches that wait for data", lambda: len(broker.purgatory)),
            "produce_purgatory_size": ("Produce requests that wait for replicas", lambda: broker.purgatory.in_line),
            "flushing_log_count": ("Logs whose flush.messages is being synced", lambda: len(broker.flusher)),
            "connection_count": ("Open connections", lambda: len(server.connections)),
            "adopted_connection_count": (
                "Connections handed over by a gateway",
                lambda: 0 if broker.adopted is None else len(broker.adopted),
            ),
            "offline_log_directory_count": ("Log directories that failed", lambda: len(broker.storage.offline)),
            "offline_replica_count": (
                "Partitions with a replica here on a log directory that failed",
                lambda: sum(p.offline for p in topics.partitions()),
            ),
            "replicas_moving_between_log_dirs": ("Replicas on their way", lambda: len(broker.dir_moves.moves)),
            "metadata_offset": ("Last applied metadata offset", lambda: broker.image.offset),
            "metadata_stale": ("1 while no controller answers", lambda: float(broker.follower.stale)),
        }
    )


def open_cleaner(broker: Broker, environment: Environment) -> Cleaner:
    """Compaction; its process is started when the first log is dirty enough."""
    backoff = Backoff(environment.clock, environment.random, first_ms=1000, most_ms=60_000)
    worker = ProcessWorker()
    cleaner = Cleaner(broker, environment.clock, backoff, worker, environment.log)
    broker.cleaner = cleaner
    count_cleaner(broker.metrics, cleaner, worker)
    return cleaner


def count_cleaner(metrics: BrokerMetrics, cleaner: Cleaner, worker: ProcessWorker) -> None:
    """Compaction's figures, under Kafka's names (LogCleaner, LogCleanerManager)."""
    stats = cleaner.stats
    metrics.gauges.update(
        {
            "max_dirty_percent": ("Dirty share of the dirtiest log", lambda: 100 * stats.dirtiest_ratio),
            "uncleanable_partitions_count": ("Logs whose compaction failed", lambda: len(stats.uncleanable)),
            "uncleanable_bytes": ("Bytes of logs whose compaction failed", cleaner.uncleanable_bytes),
            "cleaner_recopy_percent": ("Share that the last pass kept", lambda: 100 * stats.last_recopy_ratio),
            "max_clean_time_secs": ("Duration of the last pass", lambda: stats.last_pass_ms / 1000),
        }
    )
    metrics.counters.update(
        {
            "cleaner_passes": ("Finished passes of compaction", lambda: stats.passes),
            "cleaner_failures": ("Passes that ended with an error", lambda: stats.failures),
            "cleaner_bytes_read": ("Bytes that compaction read", lambda: stats.bytes_read),
            "cleaner_bytes_written": ("Bytes that compaction wrote", lambda: stats.bytes_written),
            "cleaner_full_maps": ("Passes that ended early because the key map was full", lambda: stats.full_maps),
            "cleaner_process_starts": ("Starts of the cleaner process", lambda: worker.starts),
        }
    )


def count_replicas(metrics: BrokerMetrics, replicas: Replicas) -> None:
    """Replication's gauges, under Kafka's names."""
    metrics.gauges.update(
        {
            "under_replicated_partitions": ("Led partitions whose ISR lacks a replica", replicas.under_replicated),
            "under_min_isr_partition_count": ("Led partitions under min.insync.replicas", replicas.under_min_isr),
            "at_min_isr_partition_count": ("Led partitions at min.insync.replicas", replicas.at_min_isr),
            "partitions_with_late_transactions_count": (
                "Partitions with a transaction that nobody ends",
                replicas.late_transactions,
            ),
            "replica_fetcher_max_lag": ("Committed records the furthest behind follower here lacks", replicas.max_lag),
        }
    )


def space_of(path: str) -> tuple[int, int]:
    """(total, usable) bytes of the file system that holds path, as DescribeLogDirs says them."""
    disk = os.statvfs(path)
    return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize


def tell_recovery(dirs: list[LogDir], log: Any) -> None:
    """After an unclean stop: how many logs must be checked, and each that was, as that is done at its first use."""

    def tell(log_dir: LogDir) -> None:
        def on_recovered(key: tuple[str, int], opened: Log) -> None:
            # Thousands of lines about next to nothing would cost more than the checks.
            if not opened.cut_bytes and opened.unflushed_bytes < _WORTH_A_LINE and log_dir.remaining_logs_to_recover:
                return
            log.info(
                "recovered",
                topic=key[0],
                partition=key[1],
                checked_bytes=opened.unflushed_bytes,
                cut_bytes=opened.cut_bytes,
                remaining_logs_to_recover=log_dir.remaining_logs_to_recover,
            )

        log_dir.on_recovered = on_recovered
        if log_dir.remaining_logs_to_recover:
            log.warning(
                "the last stop was not clean: logs are checked when first used",
                log_dir=log_dir.path,
                remaining_logs_to_recover=log_dir.remaining_logs_to_recover,
            )

    for log_dir in dirs:
        tell(log_dir)


def count_dirs(metrics: BrokerMetrics, pressure: DiskPressure, dirs: list[LogDir]) -> None:
    """What the fullest log dir does to producers, and what is still to be recovered."""

    def worst(read: Callable[[Pressure], float]) -> Callable[[], float]:
        return lambda: 0.0 if (found := pressure.worst()) is None else read(found)

    levels = list(Level)
    metrics.gauges.update(
        {
            "log_dir_pressure": (
                "The fullest log dir: 0 takes records, 1 slows producers, 2 refuses them",
                worst(lambda found: levels.index(found.level)),
            ),
            "log_dir_throttle_time_ms": (
                "throttle_time_ms of producers to the fullest log dir",
                worst(lambda found: found.throttle_time_ms),
            ),
            "remaining_logs_to_recover": (
                "Logs that an unclean stop left and nobody has used since",
                lambda: sum(log_dir.remaining_logs_to_recover for log_dir in dirs),
            ),
            "log_dir_usable_bytes": ("Free bytes of the fullest log dir", worst(lambda found: found.usable_bytes)),
        }
    )
    metrics.counters.update(
        {
            "disk_pressure_refused_batches": ("Batches refused for want of space", lambda: pressure.refused_batches),
            "disk_pressure_throttled_requests": (
                "Produce requests slowed or refused for want of space",
                lambda: pressure.throttled_requests,
            ),
        }
    )


role = Role("broker", open_broker)

__all__ = ["CLIENT_ENDPOINT", "HANDLERS", "open_broker", "role"]
