"""The metadata log in SQL: SQLite by default (WAL, synchronous=FULL), PostgreSQL by URL. One thread uses it.

An append locks the lease row, checks the epoch there and takes its offset from it, so a deposed controller's write
fails in the database. Whatever goes wrong at COMMIT leaves the outcome unknown: the caller resigns and reloads.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, OperationalError

from tailrace_controller.blame import describe_holders
from tailrace_controller.stored import Deposed, Loaded, OutcomeUnknown, StoredRecord, StoredSnapshot, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace_controller.projection import Change

SCHEMA_VERSION = 2
BUSY_TIMEOUT_MS = 250  # how long SQLite waits for somebody's write lock before we look who it is
BLAME_EVERY_MS = 5000

_SCHEMA = sa.MetaData()
_TEXT = sa.Text()
_BYTES = sa.LargeBinary()
_LONG = sa.BigInteger()


def _table(name: str, keys: dict[str, Any], columns: dict[str, Any]) -> sa.Table:
    primary = [sa.Column(key, kind, primary_key=True, autoincrement=False) for key, kind in keys.items()]
    return sa.Table(name, _SCHEMA, *primary, *(sa.Column(key, kind) for key, kind in columns.items()))


_VERSION = _table("schema_version", {"version": sa.Integer}, {})
_LEASE = _table("lease", {"id": sa.Integer}, {"holder": sa.Integer, "epoch": sa.Integer, "next_offset": _LONG})
_RECORDS = _table(
    "records",
    {"offset": _LONG},
    {"base_offset": _LONG, "epoch": sa.Integer, "timestamp_ms": _LONG, "type": _TEXT, "record": _BYTES},
)
_SNAPSHOTS = _table("snapshots", {"end_offset": _LONG}, {"epoch": sa.Integer, "timestamp_ms": _LONG, "payload": _BYTES})
_PROJECTIONS = {
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
        _table("quota_rows", {"entity": _TEXT, "name": _TEXT}, {"value": sa.Float}),
    )
}
_GROUPS = _table(
    "group_rows",
    {"group_id": _TEXT},
    {"coordinator_id": sa.Integer, "state": _TEXT, "type": _TEXT, "members": sa.Integer, "reported_ms": _LONG},
)
_GROUP_OFFSETS = _table(
    "group_offset_rows",
    {"group_id": _TEXT, "topic": _TEXT, "partition_id": sa.Integer},
    {
        "coordinator_id": sa.Integer,
        "committed_offset": _LONG,
        "log_end_offset": _LONG,
        "metadata": _TEXT,
        "reported_ms": _LONG,
    },
)
_VIEWS = (
    "CREATE VIEW topics AS SELECT name, topic_id, partition_count, replication_factor, internal FROM topic_rows",
    "CREATE VIEW partitions AS SELECT topic, partition_id, leader, leader_epoch, partition_epoch, replicas, isr,"
    " elr, last_known_elr, adding_replicas, removing_replicas, min_isr, offline, under_replicated, under_min_isr,"
    " topic_id FROM partition_rows",
    "CREATE VIEW brokers AS SELECT broker_id, state, rack, broker_epoch, endpoints FROM broker_rows",
    "CREATE VIEW services AS SELECT role, service_id, service_epoch, endpoints FROM service_rows",
    "CREATE VIEW shards AS SELECT topic, partition_id, owner, shard_epoch FROM shard_rows",
    "CREATE VIEW configs AS SELECT resource_type, resource_name, name, value FROM config_rows",
    "CREATE VIEW quotas AS SELECT entity, name, value FROM quota_rows",
    # The last two lag: coordinators report them with their heartbeats (reported_ms says when).
    "CREATE VIEW groups AS SELECT group_id, state, type, members, coordinator_id, reported_ms FROM group_rows",
    "CREATE VIEW group_offsets AS SELECT group_id, topic, partition_id, committed_offset, log_end_offset,"
    " log_end_offset - committed_offset AS lag, metadata, coordinator_id, reported_ms FROM group_offset_rows",
)


def sqlite_path(url: str) -> Path | None:
    """Returns the file of an SQLite URL, None for any other database."""
    parsed = sa.make_url(url)
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None


class Store:
    """One connection to the metadata database."""

    def __init__(self, url: str, monotonic_ms: Callable[[], float], blocked: Callable[[str], None]) -> None:
        """blocked is called with a sentence, from the thread that waits, while somebody else holds the write lock."""
        self._monotonic_ms = monotonic_ms
        self._path = sqlite_path(url)
        if url.startswith("postgresql://"):  # the driver we come with, whatever SQLAlchemy's default is
            url = url.replace("postgresql://", "postgresql+psycopg://", 1)
        self._blocked = blocked
        self._stopping = False
        self._engine = sa.create_engine(url, poolclass=sa.pool.NullPool, **self._options())
        if self._path is not None:
            sa.event.listen(self._engine, "connect", _set_up_sqlite)
        self._open: sa.Connection | None = None

    def _options(self) -> dict[str, Any]:
        # autocommit at the driver: BEGIN is ours to write, so that it can be IMMEDIATE
        return {} if self._path is None else {"isolation_level": "AUTOCOMMIT"}

    def stop_waiting(self) -> None:
        """Makes a wait for somebody's lock give up; called from another thread."""
        self._stopping = True

    def load(self, holder: int) -> Loaded:
        """Takes the lease with a new epoch and reads the log; creates the schema in an empty database.

        OutcomeUnknown if the database cannot be reached; StoreError if it is not one this version can use.
        """
        try:
            return self._load(holder)
        except DBAPIError as failure:  # no connection: transactions translate their own failures
            raise OutcomeUnknown(str(failure.orig)) from failure

    def _load(self, holder: int) -> Loaded:
        if not sa.inspect(self._connection).has_table("schema_version"):
            self._create()
        with self._transaction() as connection:
            version = connection.execute(sa.select(_VERSION.c.version)).scalar_one()
            if version != SCHEMA_VERSION:
                raise StoreError(
                    f"the metadata database has schema version {version}, this Tailrace knows {SCHEMA_VERSION}"
                )
            epoch, next_offset = connection.execute(
                sa.select(_LEASE.c.epoch, _LEASE.c.next_offset).with_for_update()
            ).one()
            connection.execute(_LEASE.update().values(holder=holder, epoch=epoch + 1))
            newest = connection.execute(sa.select(_SNAPSHOTS).order_by(_SNAPSHOTS.c.end_offset.desc())).first()
            rows = connection.execute(sa.select(_RECORDS).order_by(_RECORDS.c.offset)).all()
        snapshot = None if newest is None else StoredSnapshot(newest.end_offset, newest.epoch, newest.payload)
        columns = (StoredRecord(r.offset, r.base_offset, r.epoch, r.timestamp_ms, r.type, r.record) for r in rows)
        return Loaded(epoch + 1, next_offset, snapshot, tuple(columns))

    def append(self, epoch: int, records: Sequence[StoredRecord], changes: Iterable["Change"]) -> None:
        """Appends records whose offsets follow the log's end; Deposed if the lease is not this epoch's any more."""
        rows = [_row(record) for record in records]
        with self._transaction(epoch, expected_offset=records[0].offset) as connection:
            connection.execute(_RECORDS.insert(), rows)
            connection.execute(_LEASE.update().values(next_offset=records[-1].offset + 1))
            self._project(connection, changes)

    def snapshot(self, epoch: int, snapshot: StoredSnapshot, timestamp_ms: int, keep_from: int) -> None:
        """Adds a snapshot and drops older ones and the records below keep_from, which it must cover."""
        assert keep_from <= snapshot.end_offset
        row = {"end_offset": snapshot.end_offset, "epoch": snapshot.epoch, "timestamp_ms": timestamp_ms}
        with self._transaction(epoch) as connection:
            connection.execute(_SNAPSHOTS.delete())
            connection.execute(_SNAPSHOTS.insert(), {**row, "payload": snapshot.payload})
            connection.execute(_RECORDS.delete().where(_RECORDS.c.offset < keep_from))

    def report(
        self,
        epoch: int,
        coordinator_id: int,
        groups: Sequence[dict[str, Any]] | None,
        offsets: Sequence[dict[str, Any]] | None,
    ) -> None:
        """Replaces what one coordinator reported about groups and about committed offsets; None leaves a kind alone."""
        with self._transaction(epoch) as connection:
            for table, rows in ((_GROUPS, groups), (_GROUP_OFFSETS, offsets)):
                if rows is None:
                    continue
                connection.execute(table.delete().where(table.c.coordinator_id == coordinator_id))
                for row in rows:  # another coordinator may still list what moved here
                    key = sa.and_(*(column == row[column.name] for column in table.primary_key))
                    connection.execute(table.delete().where(key))
                    connection.execute(table.insert(), {**row, "coordinator_id": coordinator_id})

    def close(self) -> None:
        """Closes the connection; SQLite then folds its write-ahead log into the file if nobody else reads it."""
        if self._open is not None:
            self._open.close()
            self._open = None
        self._engine.dispose()

    def _create(self) -> None:
        with self._transaction() as connection:
            _SCHEMA.create_all(connection)
            for view in _VIEWS:
                connection.execute(sa.text(view))
            connection.execute(_VERSION.insert(), {"version": SCHEMA_VERSION})
            connection.execute(_LEASE.insert(), {"id": 1, "holder": -1, "epoch": 0, "next_offset": 0})

    def _project(self, connection: sa.Connection, changes: Iterable["Change"]) -> None:
        deletes: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        inserts: dict[str, list[dict[str, Any]]] = {}
        for change in changes:
            keys = {f"key_{name}": value for name, value in change.key.items()}
            deletes.setdefault((change.table, *change.key), []).append(keys)
            if change.row is not None:
                inserts.setdefault(change.table, []).append({**change.key, **change.row})
        for (name, *columns), rows in deletes.items():
            table = _PROJECTIONS[name]
            match = sa.and_(*(table.c[column] == sa.bindparam(f"key_{column}") for column in columns))
            connection.execute(table.delete().where(match), rows)
        for name, rows in inserts.items():
            connection.execute(_PROJECTIONS[name].insert(), rows)

    @property
    def _connection(self) -> sa.Connection:
        if self._open is None or self._open.closed:
            self._open = self._engine.connect()
        return self._open

    @contextmanager
    def _transaction(self, epoch: int | None = None, expected_offset: int | None = None) -> "Iterator[sa.Connection]":
        """A write transaction; with an epoch it first locks the lease row and checks it there."""
        try:
            connection = self._connection
        except DBAPIError as failure:
            raise OutcomeUnknown(str(failure.orig)) from failure
        self._begin(connection)
        try:
            if epoch is not None:
                self._check_lease(connection, epoch, expected_offset)
            yield connection
        except BaseException as failure:
            self._abandon(connection)
            if isinstance(failure, DBAPIError):
                raise OutcomeUnknown(str(failure.orig)) from failure
            raise
        try:
            if self._path is None:
                connection.commit()
            else:
                connection.exec_driver_sql("COMMIT")
        except DBAPIError as failure:
            self._abandon(connection)
            raise OutcomeUnknown(str(failure.orig)) from failure

    def _check_lease(self, connection: sa.Connection, epoch: int, expected_offset: int | None) -> None:
        lease = connection.execute(sa.select(_LEASE).with_for_update()).one()
        if lease.epoch != epoch:
            raise Deposed(f"controller {lease.holder} took the lease with epoch {lease.epoch}; this one has {epoch}")
        if expected_offset is not None and lease.next_offset != expected_offset:
            raise OutcomeUnknown(f"the log ends at {lease.next_offset}, an append at {expected_offset} was wanted")

    def _begin(self, connection: sa.Connection) -> None:
        """BEGIN IMMEDIATE, waiting out a write lock that somebody else holds, and saying who it is."""
        if self._path is None:
            return
        started_ms = self._monotonic_ms()
        blamed_ms = -float(BLAME_EVERY_MS)
        while True:
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                return
            except OperationalError as busy:
                if "locked" not in str(busy.orig) or self._stopping:
                    raise OutcomeUnknown(str(busy.orig)) from busy
            waited_ms = self._monotonic_ms() - started_ms
            if waited_ms - blamed_ms >= BLAME_EVERY_MS:
                blamed_ms = waited_ms
                self._blocked(
                    f"waiting {waited_ms / 1000:.1f} s for a write lock held by {describe_holders(self._path)}"
                )

    def _abandon(self, connection: sa.Connection) -> None:
        """Drops the connection, and with it whatever the transaction did."""
        connection.invalidate()
        connection.close()
        self._open = None


def _row(record: StoredRecord) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "base_offset": record.base_offset,
        "epoch": record.epoch,
        "timestamp_ms": record.timestamp_ms,
        "type": record.type,
        "record": record.record,
    }


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    # FULL: a committed decision is on disk, also after power loss; WAL: readers and the writer do not meet.
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", "journal_mode=WAL", "synchronous=FULL"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
