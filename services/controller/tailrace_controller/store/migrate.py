"""Brings a metadata database of an older schema up to this one, inside the caller's transaction.

The log itself has not changed since schema 1; what changes are the lease row and the tables that views stand on.
Records, snapshots and all that was reported stay.
"""

import json
from typing import Any

import sqlalchemy as sa

from tailrace.config.describe import is_sensitive
from tailrace.kafka.resources import ConfigResource
from tailrace_controller.metadata_log.lease_row import NOBODY, Lease
from tailrace_controller.store.schema import (
    GROUP_OFFSETS,
    LEASE,
    PROJECTIONS,
    SCHEMA,
    SCHEMA_VERSION,
    VERSION,
    VIEWS,
    view_sql,
)

OLDEST_VERSION = 1
_NO_LEADER = -1
_NOBODY = "[]"
_OFFSETS = "group_offsets"
_NEWEST_COLUMN = "lag_trend"  # of that view: the one that was added last
_CONFIGS = PROJECTIONS["config_rows"]
_OF_BROKERS = _CONFIGS.c.resource_type == ConfigResource.BROKER.label


def no_way_back(version: int) -> str:
    """Why a database of an older schema is not changed without the operator's word."""
    return (
        f"the metadata database has schema version {version}, and this Tailrace would change it to {SCHEMA_VERSION}, "
        "which the version that runs now cannot read: there is no way back but a backup. "
        "Stop all controllers, make a backup, and start one with metadata.schema.upgrade=true"
    )


def migrate(connection: sa.Connection) -> None:
    """From schema 2, which lacks the table of transactions, or from schema 1."""
    version = connection.execute(sa.select(VERSION.c.version)).scalar_one()
    for view in VIEWS:
        connection.execute(sa.text(f"DROP VIEW IF EXISTS {view.split()[2]}"))
    if version == OLDEST_VERSION:
        _add_replicas(connection)
    complete(connection)
    connection.execute(VERSION.update().values(version=SCHEMA_VERSION))


def is_complete(connection: sa.Connection) -> bool:
    """Whether all tables are there, and no view shows what an older release did."""
    has_tables = SCHEMA.tables.keys() <= set(sa.inspect(connection).get_table_names())
    return has_tables and not _has_older_view(connection) and not _shown_secrets(connection)


def complete(connection: sa.Connection) -> None:
    """Adds the tables, columns and views that are missing, and removes the secrets that older releases showed.

    On PostgreSQL a view is replaced in place: other views may stand on it, and it has privileges of its own.
    """
    SCHEMA.create_all(connection)
    _add_columns(connection, GROUP_OFFSETS)
    if secrets := _shown_secrets(connection):
        connection.execute(_CONFIGS.update().where(_OF_BROKERS, _CONFIGS.c.name.in_(secrets)).values(value=None))
    in_place = connection.dialect.name == "postgresql"
    there = set(sa.inspect(connection).get_view_names())
    if _has_older_view(connection):
        there.discard(_OFFSETS)
        if not in_place:
            connection.execute(sa.text(f"DROP VIEW {_OFFSETS}"))
    for view in VIEWS:
        if view.split()[2] not in there:
            text = view_sql(view, connection.dialect.name)
            connection.execute(sa.text(text.replace("CREATE", "CREATE OR REPLACE", 1) if in_place else text))


def _add_columns(connection: sa.Connection, table: sa.Table) -> None:
    """Adds those that the table of an older release lacks. Such a release goes on beside this one: it writes none."""
    there = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
    for column in table.columns:
        if column.name not in there:
            kind = column.type.compile(connection.dialect)
            connection.execute(sa.text(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}"))


def _has_older_view(connection: sa.Connection) -> bool:
    """Whether the view of offsets is that of a release with fewer columns, whose lag may even be negative."""
    inspector = sa.inspect(connection)
    if _OFFSETS not in inspector.get_view_names():
        return False
    return _NEWEST_COLUMN not in {column["name"] for column in inspector.get_columns(_OFFSETS)}


def _shown_secrets(connection: sa.Connection) -> list[str]:
    """The names of secrets whose values an older release put into the view of configs."""
    shown = sa.select(_CONFIGS.c.name).distinct().where(_OF_BROKERS, _CONFIGS.c.value.is_not(None))
    return [name for name in connection.execute(shown).scalars() if is_sensitive(ConfigResource.BROKER, name)]


def _add_replicas(connection: sa.Connection) -> None:
    """From schema 1, whose partitions had one replica each, and whose lease was not passed on."""
    lease = connection.execute(sa.text("SELECT epoch, next_offset FROM lease")).one()
    partitions = [dict(row) for row in connection.execute(sa.text("SELECT * FROM partition_rows")).mappings()]
    rows = PROJECTIONS["partition_rows"]
    for table in (rows, LEASE):
        connection.execute(sa.text(f"DROP TABLE {table.name}"))
        table.create(connection)
    first = Lease(holder=NOBODY, token="", epoch=lease.epoch, renewals=0, next_offset=lease.next_offset)
    connection.execute(LEASE.insert(), {"id": 1, **{name: getattr(first, name) for name in Lease.__dataclass_fields__}})
    if partitions:
        connection.execute(rows.insert(), [_partition(row) for row in partitions])


def _partition(row: dict[str, Any]) -> dict[str, Any]:
    """The facts of a partition with one replica, in sync as long as it is there."""
    replicas, isr = json.loads(row["replicas"]), json.loads(row["isr"])
    offline = row["leader"] == _NO_LEADER
    return {
        **row,
        "elr": _NOBODY,
        "last_known_elr": _NOBODY,
        "adding_replicas": _NOBODY,
        "removing_replicas": _NOBODY,
        "min_isr": 1,
        "offline": offline,
        "under_replicated": len(isr) < len(replicas),
        "under_min_isr": not isr,
    }
