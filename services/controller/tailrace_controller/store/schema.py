"""The tables of the metadata database and the views that people query; SCHEMA_VERSION counts their changes.

A table or view that is only added is no change: versions that do not know it go on beside it.
"""

from typing import Any

import sqlalchemy as sa

from tailrace.kafka.lag import LAG_IN_SQL, lag_seconds_in_sql

SCHEMA_VERSION = 3

SCHEMA = sa.MetaData()
_TEXT = sa.Text()
_BYTES = sa.LargeBinary()
_LONG = sa.BigInteger()


def _table(name: str, keys: dict[str, Any], columns: dict[str, Any]) -> sa.Table:
    primary = [sa.Column(key, kind, primary_key=True, autoincrement=False) for key, kind in keys.items()]
    return sa.Table(name, SCHEMA, *primary, *(sa.Column(key, kind) for key, kind in columns.items()))


VERSION = _table("schema_version", {"version": sa.Integer}, {})
# A later schema that only adds tables has this one, too: the lowest schema whose Tailrace may go on working here.
READERS = sa.Table("schema_readers", sa.MetaData(), sa.Column("version", sa.Integer, primary_key=True))
LEASE = _table(
    "lease",
    {"id": sa.Integer},
    {
        "holder": sa.Integer,
        "token": _TEXT,
        "epoch": sa.Integer,
        "renewals": _LONG,
        "next_offset": _LONG,
        "address": _TEXT,
        "seen_offset": _LONG,
        "seen_epoch": sa.Integer,
        "accepted_offset": _LONG,
    },
)
RECORDS = _table(
    "records",
    {"offset": _LONG},
    {"base_offset": _LONG, "epoch": sa.Integer, "timestamp_ms": _LONG, "type": _TEXT, "record": _BYTES},
)
SNAPSHOTS = _table("snapshots", {"end_offset": _LONG}, {"epoch": sa.Integer, "timestamp_ms": _LONG, "payload": _BYTES})
PROJECTIONS = {
    table.name: table
    for table in (
        _table(
            "topic_rows",
            {"topic_id": _TEXT},
            {"name": _TEXT, "partition_count": sa.Integer, "replication_factor": sa.Integer, "internal": sa.Boolean},
        ),
        _table(
            "partition_rows",
            {"topic_id": _TEXT, "partition_id": sa.Integer},
            {
                "topic": _TEXT,
                "leader": sa.Integer,
                "leader_epoch": sa.Integer,
                "partition_epoch": sa.Integer,
                "replicas": _TEXT,
                "isr": _TEXT,
                "elr": _TEXT,
                "last_known_elr": _TEXT,
                "adding_replicas": _TEXT,
                "removing_replicas": _TEXT,
                "min_isr": sa.Integer,
                "offline": sa.Boolean,
                "under_replicated": sa.Boolean,
                "under_min_isr": sa.Boolean,
            },
        ),
        _table(
            "broker_rows",
            {"broker_id": sa.Integer},
            {"state": _TEXT, "rack": _TEXT, "broker_epoch": _LONG, "endpoints": _TEXT},
        ),
        _table(
            "service_rows",
            {"role": _TEXT, "service_id": sa.Integer},
            {"service_epoch": _LONG, "endpoints": _TEXT},
        ),
        _table(
            "shard_rows",
            {"topic": _TEXT, "partition_id": sa.Integer},
            {"owner": sa.Integer, "shard_epoch": sa.Integer},
        ),
        _table("config_rows", {"resource_type": _TEXT, "resource_name": _TEXT, "name": _TEXT}, {"value": _TEXT}),
        _table(
            "acl_rows",
            {"acl_id": _TEXT},
            {
                "resource_type": _TEXT,
                "resource_name": _TEXT,
                "pattern_type": _TEXT,
                "principal": _TEXT,
                "host": _TEXT,
                "operation": _TEXT,
                "permission_type": _TEXT,
            },
        ),
        _table("quota_rows", {"entity": _TEXT, "name": _TEXT}, {"value": sa.Float}),
    )
}
GROUPS = _table(
    "group_rows",
    {"group_id": _TEXT},
    {"coordinator_id": sa.Integer, "state": _TEXT, "type": _TEXT, "members": sa.Integer, "reported_ms": _LONG},
)
GROUP_OFFSETS = _table(
    "group_offset_rows",
    {"group_id": _TEXT, "topic": _TEXT, "partition_id": sa.Integer},
    {
        "coordinator_id": sa.Integer,
        "committed_offset": _LONG,
        "log_end_offset": _LONG,
        "metadata": _TEXT,
        "reported_ms": _LONG,
        "next_timestamp_ms": _LONG,
        "lag_trend": sa.Float,
    },
)
TRANSACTIONS = _table(
    "transaction_rows",
    {"transactional_id": _TEXT},
    {
        "coordinator_id": sa.Integer,
        "state": _TEXT,
        "producer_id": _LONG,
        "producer_epoch": sa.Integer,
        "timeout_ms": _LONG,
        "start_ms": _LONG,
        "partitions": sa.Integer,
        "reported_ms": _LONG,
    },
)
QUOTA_USAGE = _table(
    "quota_usage_rows",
    {"entity": _TEXT, "name": _TEXT},
    {
        "coordinator_id": sa.Integer,  # a quota service's: reports are all stored alike
        "value": sa.Float,
        "usage": sa.Float,
        "throttle_time_ms": _LONG,
        "throttled": sa.Boolean,
        "reported_ms": _LONG,
    },
)
VIEWS = (
    "CREATE VIEW topics AS SELECT name, topic_id, partition_count, replication_factor, internal FROM topic_rows",
    "CREATE VIEW partitions AS SELECT topic, partition_id, leader, leader_epoch, partition_epoch, replicas, isr,"
    " elr, last_known_elr, adding_replicas, removing_replicas, min_isr, offline, under_replicated, under_min_isr,"
    " topic_id FROM partition_rows",
    "CREATE VIEW brokers AS SELECT broker_id, state, rack, broker_epoch, endpoints FROM broker_rows",
    "CREATE VIEW services AS SELECT role, service_id, service_epoch, endpoints FROM service_rows",
    "CREATE VIEW shards AS SELECT topic, partition_id, owner, shard_epoch FROM shard_rows",
    "CREATE VIEW configs AS SELECT resource_type, resource_name, name, value FROM config_rows",
    "CREATE VIEW quotas AS SELECT entity, name, value FROM quota_rows",
    "CREATE VIEW acls AS SELECT resource_type, resource_name, pattern_type, principal, host, operation,"
    " permission_type, acl_id FROM acl_rows",
    # The last four lag: coordinators and quota services report them (reported_ms says when).
    "CREATE VIEW groups AS SELECT group_id, state, type, members, coordinator_id, reported_ms FROM group_rows",
    "CREATE VIEW group_offsets AS SELECT group_id, topic, partition_id, committed_offset, log_end_offset,"
    f" {LAG_IN_SQL} AS lag, metadata, coordinator_id, reported_ms, next_timestamp_ms,"
    f" CAST({lag_seconds_in_sql('{now_ms}')} AS DOUBLE PRECISION) AS lag_seconds, lag_trend FROM group_offset_rows",
    "CREATE VIEW transactions AS SELECT transactional_id, state, producer_id, producer_epoch, timeout_ms, start_ms,"
    " partitions, coordinator_id, reported_ms FROM transaction_rows",
    "CREATE VIEW quota_usage AS SELECT entity, name, value, usage, throttle_time_ms, throttled, coordinator_id AS"
    " quota_service_id, reported_ms FROM quota_usage_rows",
)
_NOW_MS = {
    "sqlite": "((julianday('now') - 2440587.5) * 86400000.0)",
    "postgresql": "(extract(epoch FROM clock_timestamp()) * 1000)",
}


def view_sql(view: str, dialect: str) -> str:
    """One of VIEWS as the database of that dialect takes it."""
    return view.replace("{now_ms}", _NOW_MS[dialect])
