"""One file per API; the tables are what this role serves beside Produce and Fetch. Each handler gets what it uses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVarTuple

from tailrace.clock import Clock
from tailrace.net.context import Context
from tailrace.net.dispatch import Handler
from tailrace.net.metadata.follower import MetadataFollower
from tailrace.wire.apis import ApiKey
from tailrace_broker.compaction.cleaner import Cleaner
from tailrace_broker.connections.adopted import Adopted
from tailrace_broker.directories.moves import DirMoves
from tailrace_broker.directories.storage import Storage
from tailrace_broker.dynamic_config import DynamicBrokerConfig
from tailrace_broker.fetch.lookups import Lookups
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
from tailrace_broker.partitions.topics import Topics
from tailrace_broker.partitions.wakeups import WakeUps
from tailrace_broker.produce.producer_ids import ProducerIds
from tailrace_broker.transactions.coordinators import Coordinators
from tailrace_broker.transactions.hanging import HangingTransactions
from tailrace_broker.transactions.open_transactions import LedTransactions

Parts = TypeVarTuple("Parts")


def _with(handle: Callable[[Any, Context, *Parts], Awaitable[Any]], *parts: *Parts) -> Handler:
    return lambda request, context, _: handle(request, context, *parts)


def client_handlers(
    *,
    topics: Topics,
    storage: Storage,
    dir_moves: DirMoves,
    wakeups: WakeUps,
    lookups: Lookups,
    coordinators: Coordinators,
    follower: MetadataFollower,
    config: DynamicBrokerConfig,
    clock: Clock,
) -> dict[int, Handler]:
    """What a client may ask a broker directly; a gateway knows which node to ask for DescribeConfigs and the like."""
    return {
        ApiKey.LIST_OFFSETS: _with(list_offsets.handle, topics, lookups),
        ApiKey.DELETE_RECORDS: _with(delete_records.handle, topics, storage, wakeups, clock),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _with(offset_for_leader_epoch.handle, topics),
        ApiKey.WRITE_TXN_MARKERS: _with(
            write_txn_markers.handle, topics, wakeups, coordinators, follower, config, clock
        ),
        ApiKey.ALTER_REPLICA_LOG_DIRS: _with(alter_replica_log_dirs.handle, topics, storage, dir_moves),
        ApiKey.DESCRIBE_LOG_DIRS: _with(describe_log_dirs.handle, topics, storage, dir_moves),
        ApiKey.DESCRIBE_PRODUCERS: _with(describe_producers.handle, topics),
    }


def service_handlers(
    *,
    topics: Topics,
    wakeups: WakeUps,
    lookups: Lookups,
    producer_ids: ProducerIds,
    open_transactions: LedTransactions,
    hanging: HangingTransactions,
    cleaner: Cleaner,
    adopted: Adopted,
    follower: MetadataFollower,
    config: DynamicBrokerConfig,
    clock: Clock,
) -> dict[int, Handler]:
    """What only other services of the cluster ask."""
    return {
        ApiKey.INIT_PRODUCER_ID: _with(init_producer_id.handle, producer_ids),
        ApiKey.DESCRIBE_CONFIGS: _with(describe_configs.handle, config, follower),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _with(incremental_alter_configs.handle, topics.node_id),
        ApiKey.FENCE_SHARD: _with(fence_shard.handle, topics, wakeups, lookups, follower, config, clock),
        ApiKey.DESCRIBE_CLEANER: _with(describe_cleaner.handle, topics, cleaner),
        ApiKey.DESCRIBE_OPEN_TRANSACTIONS: _with(describe_open_transactions.handle, open_transactions, hanging),
        ApiKey.ADOPT_CONNECTION: _with(adopt_connection.handle, adopted),
    }
