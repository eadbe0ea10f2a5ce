"""Which figures the broker shows: names, help and where each is read when scraped, in Kafka's MBean words."""

from __future__ import annotations

from collections.abc import Callable

from tailrace.log.directory.disk_pressure import Level, Pressure
from tailrace.net.metadata.follower import MetadataFollower
from tailrace.net.quotas.throttled_connections import ThrottledConnections
from tailrace.net.server import Server
from tailrace.net.tls.handshakes import Handshakes
from tailrace_broker.cold_reads.reads import ColdReads
from tailrace_broker.compaction.cleaner import Cleaner
from tailrace_broker.compaction.worker import Workers
from tailrace_broker.connections.adopted import Adopted
from tailrace_broker.connections.limited import LimitedClients
from tailrace_broker.directories.disk_pressure import DiskPressure
from tailrace_broker.directories.moves import DirMoves
from tailrace_broker.directories.storage import Storage
from tailrace_broker.fetch.delayed import DelayedFetch
from tailrace_broker.fetch.lookups import Lookups
from tailrace_broker.metrics import BrokerMetrics
from tailrace_broker.partitions.wakeups import WakeUps
from tailrace_broker.produce.delayed import DelayedProduce
from tailrace_broker.produce.validation_threads import Examiner
from tailrace_broker.replication.replicas import Replicas


def count_quotas(metrics: BrokerMetrics, limited: LimitedClients, throttled: ThrottledConnections) -> None:
    """What clients whose socket is here are held back by quotas."""
    metrics.counters["throttle_time_seconds"] = (
        "Throttle time given to clients whose socket is here (KIP-219)",
        lambda: limited.throttled_ms / 1000,
    )
    metrics.counters["throttled_connections"] = (
        "Connections refused by a connection_creation_rate (KIP-612)",
        lambda: throttled.refused_count,
    )
    metrics.counters["connections_refused_per_ip"] = (
        "Connections above max.connections.per.ip of their address",
        lambda: throttled.per_ip.refused_count,
    )


def count_handshakes(metrics: BrokerMetrics, handshakes: Handshakes | None) -> None:
    """Of TLS, at the broker's own listener for clients."""
    metrics.counters["tls_handshakes"] = (
        "TLS handshakes of clients that succeeded",
        lambda: 0 if handshakes is None else handshakes.done_count,
    )
    metrics.counters["failed_tls_handshakes"] = (
        "TLS handshakes that were refused",
        lambda: 0 if handshakes is None else handshakes.failed_count,
    )


def count_reads(metrics: BrokerMetrics, cold: ColdReads, lookups: Lookups) -> None:
    """Reads from the disk, and lookups by timestamp."""
    metrics.counters["cold_reads"] = ("Times a fetch had to wait for the disk", lambda: cold.count)
    metrics.counters["cold_read_bytes"] = ("Bytes brought into the page cache for them", lambda: cold.bytes)
    metrics.counters["cold_read_pool_bytes"] = (
        "Bytes brought into the pool for them, past the page cache",
        lambda: cold.pool_bytes,
    )
    metrics.counters["cold_process_starts"] = (
        "Starts of the process that reads cold data; growing means that it dies",
        lambda: cold.process_starts,
    )
    metrics.counters["lookups"] = (
        "Lookups by timestamp, and walks through damaged segments, in threads",
        lambda: lookups.count,
    )
    metrics.gauges.update(
        {
            "lookup_queue_size": ("Lookups and walks that run or wait for a thread", lambda: len(lookups)),
            "cold_read_pool_used_bytes": ("What the pool for cold reads holds", lambda: cold.held_bytes),
            "cold_read_queue_size": ("Fetches that wait for their turn on the disk", lambda: len(cold.turns)),
        }
    )


def count_requests(
    metrics: BrokerMetrics, wakeups: WakeUps, examiner: Examiner, server: Server, adopted: Adopted
) -> None:
    """What waits, and the connections it waits for."""
    metrics.gauges.update(
        {
            "held_produce_requests": (
                "Produce requests whose transaction a coordinator is asked about",
                lambda: metrics.held_produce_requests,
            ),
            "examination_queue_size": (
                "Produce requests whose records a thread looks through, or will",
                lambda: len(examiner),
            ),
            "fetch_purgatory_size": ("Fetches that wait for data", lambda: wakeups.purgatory.count(DelayedFetch)),
            "produce_purgatory_size": (
                "Produce requests that wait for replicas",
                lambda: wakeups.purgatory.count(DelayedProduce),
            ),
            "flushing_logs": ("Logs whose flush.messages is being synced", lambda: len(wakeups.flusher)),
            "connections": ("Open connections", lambda: len(server.connections)),
            "adopted_connections": ("Connections handed over by a gateway", lambda: len(adopted)),
        }
    )


def count_metadata(metrics: BrokerMetrics, follower: MetadataFollower) -> None:
    """How far the metadata image is."""
    metrics.gauges["metadata_offset"] = ("Last applied metadata offset", lambda: follower.applied.offset)
    metrics.gauges["metadata_stale"] = ("1 while no controller answers", lambda: float(follower.stale))


def count_cleaner(metrics: BrokerMetrics, cleaner: Cleaner, workers: Workers) -> None:
    """Compaction's figures, under Kafka's names (LogCleaner, LogCleanerManager)."""
    stats = cleaner.stats
    metrics.gauges.update(
        {
            "max_dirty_percent": ("Dirty share of the dirtiest log", lambda: 100 * stats.dirtiest_ratio),
            "uncleanable_partitions": ("Logs whose compaction failed", lambda: len(stats.uncleanable)),
            "uncleanable_bytes": ("Bytes of logs whose compaction failed", cleaner.uncleanable_bytes),
            "cleaner_recopy_percent": ("Share that the last pass kept", lambda: 100 * stats.last_recopy_ratio),
            "max_clean_time_seconds": ("Duration of the last pass", lambda: stats.last_pass_ms / 1000),
        }
    )
    metrics.counters.update(
        {
            "cleaner_passes": ("Finished passes of compaction", lambda: stats.passes),
            "cleaner_failures": ("Passes that ended with an error", lambda: stats.failures),
            "cleaner_bytes_read": ("Bytes that compaction read", lambda: stats.bytes_read),
            "cleaner_bytes_written": ("Bytes that compaction wrote", lambda: stats.bytes_written),
            "cleaner_full_maps": ("Passes that ended early because the key map was full", lambda: stats.full_maps),
            "cleaner_process_starts": ("Starts of cleaner processes", lambda: workers.starts),
        }
    )


def count_replicas(metrics: BrokerMetrics, replicas: Replicas) -> None:
    """Replication's gauges, under Kafka's names."""
    text = "Committed records the furthest behind follower here lacks"
    metrics.gauges["replica_fetcher_max_lag"] = (text, replicas.max_lag)


def count_dirs(metrics: BrokerMetrics, pressure: DiskPressure, storage: Storage, dir_moves: DirMoves) -> None:
    """What the fullest log dir does to producers, and what is still to be recovered."""

    def worst(read: Callable[[Pressure], float]) -> Callable[[], float]:
        return lambda: 0.0 if (found := pressure.worst()) is None else read(found)

    levels, dirs = list(Level), storage.configured
    metrics.gauges.update(
        {
            "log_dir_pressure": (
                "The fullest log dir: 0 takes records, 1 slows producers, 2 refuses them",
                worst(lambda found: levels.index(found.level)),
            ),
            "log_dir_throttle_time_seconds": (
                "Throttle time of producers to the fullest log dir",
                worst(lambda found: found.throttle_time_ms / 1000),
            ),
            "remaining_logs_to_recover": (
                "Logs that an unclean stop left and that are neither recovered nor used since",
                lambda: sum(log_dir.remaining_logs_to_recover for log_dir in dirs),
            ),
            "remaining_segments_to_recover": (
                "Segments that threads are to check, or check now, in logs that an unclean stop left",
                lambda: sum(log_dir.tails.remaining_segments for log_dir in dirs),
            ),
            "offline_log_directories": ("Log directories that failed", lambda: len(storage.offline)),
            "replicas_moving_between_log_dirs": ("Replicas on their way", lambda: len(dir_moves.moves)),
            "log_dir_usable_bytes": ("Free bytes of the fullest log dir", worst(lambda found: found.usable_bytes)),
        }
    )
    metrics.counters.update(
        {
            "evicted_producer_ids": (
                "Producer ids that were forgotten because a partition had too many",
                lambda: sum(log_dir.evicted_producers for log_dir in dirs),
            ),
            "damaged_segments": (
                "Segments in which a batch or an index was found damaged",
                lambda: sum(log_dir.findings.damaged_segments for log_dir in dirs),
            ),
            "disk_pressure_refused_batches": ("Batches refused for want of space", lambda: pressure.refused_batches),
            "disk_pressure_throttled_requests": (
                "Produce requests slowed or refused for want of space",
                lambda: pressure.throttled_requests,
            ),
        }
    )
