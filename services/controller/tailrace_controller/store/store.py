"""The metadata log in SQL. One thread uses it; the controller epoch in the lease row is its fence.

An append changes the lease row under its lock, checks the epoch there and takes its offset from it, so a deposed
controller's write fails in the database. A value that the database cannot hold fails alone (ContentRefused). Whatever
else goes wrong leaves the outcome unknown: the caller resigns and reloads. Every question about the lease goes out and
comes back as one statement.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.exc import DataError, DBAPIError

from tailrace_controller.metadata_log.lease_row import NOBODY, Candidate, Lease
from tailrace_controller.metadata_log.stored import (
    ContentRefused,
    Deposed,
    OutcomeUnknown,
    ReplayPosition,
    ReportPart,
    StoredLog,
    StoredRecord,
    StoredSnapshot,
    StoreError,
)
from tailrace_controller.store import rows
from tailrace_controller.store.engine import Engine
from tailrace_controller.store.migrate import OLDEST_VERSION, complete, is_complete, migrate, no_way_back
from tailrace_controller.store.postgres import Postgres
from tailrace_controller.store.schema import (
    GROUP_OFFSETS,
    GROUPS,
    LEASE,
    PROJECTIONS,
    QUOTA_USAGE,
    READERS,
    RECORDS,
    SCHEMA_VERSION,
    SNAPSHOTS,
    TRANSACTIONS,
    VERSION,
)
from tailrace_controller.store.sqlite import Sqlite, sqlite_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace_controller.metadata_log.projection import RowsChange

DEFAULT_LEASE_MS = 1000.0
_REPORTED = {
    "groups": GROUPS,
    "group_offsets": GROUP_OFFSETS,
    "transactions": TRANSACTIONS,
    "quota_usage": QUOTA_USAGE,
}
_KEY = "key_"
_DELETE = {
    kind: table.delete().where(sa.and_(*(column == sa.bindparam(_KEY + column.name) for column in table.primary_key)))
    for kind, table in _REPORTED.items()
}
# One quota service knows all that is used. What another one told that does not report any more is not so by now.
_USAGE_MS = 120_000
_LEASE_COLUMNS = [LEASE.c[name] for name in Lease.__dataclass_fields__]
_RECORD_NAMES = tuple(StoredRecord.__dataclass_fields__)
_RECORD_COLUMNS = [RECORDS.c[name] for name in _RECORD_NAMES]
_row = attrgetter(*_RECORD_NAMES)
_CONTENT_CLASSES = {"22", "54"}  # of SQLSTATE: data exception, program limit exceeded


class Store:
    """One connection to the metadata database."""

    def __init__(
        self,
        url: str,
        monotonic_ms: Callable[[], float],
        blocked: Callable[[str], None],
        lease_ms: float = DEFAULT_LEASE_MS,
        *,
        may_upgrade: bool = False,
    ) -> None:
        """blocked is called with a sentence, from the thread that waits, while somebody else holds the write lock.

        may_upgrade: an older schema may be changed to this version's, after which older versions cannot read it.
        """
        self._may_upgrade = may_upgrade
        self._monotonic_ms = monotonic_ms
        path = sqlite_path(url)
        self._engine: Engine = Postgres(url, lease_ms) if path is None else Sqlite(url, path, monotonic_ms, blocked)
        self._postgres = self._engine if isinstance(self._engine, Postgres) else None
        self._open: sa.Connection | None = None
        self._committed_ms = 0.0
        self._known = False  # that the schema is there and ours

    def interrupt(self) -> bool:
        """Makes a wait for a lock, or for a server that says nothing, give up; called from another thread.

        True where that may take long, and nothing comes of it: the store is just connecting.
        """
        return self._engine.interrupt()

    # -- the lease ------------------------------------------------------------------------------------------------

    def follow(self, position: ReplayPosition) -> StoredLog:
        """Reads the lease row and what the log holds beyond a position; creates the schema in an empty database.

        OutcomeUnknown if the database cannot be reached; StoreError if it is not one this version can use.
        """
        with self._translated():
            self._know_schema()
            asked_ms = self._monotonic_ms()
            loaded = self._read_on(self._connection, position, asked_ms)
        if loaded is not None:
            return loaded
        with self._transaction(begin=self._engine.begin_read) as connection:
            return self._read(connection, position, asked_ms)

    def take(self, candidate: Candidate, expected: Lease | None, position: ReplayPosition) -> StoredLog | None:
        """Takes the lease with a new epoch and reads the log; None if the row is not the expected one any more."""
        with self._translated():
            self._know_schema()
        asked_ms = self._monotonic_ms()
        with self._transaction() as connection:
            changes = {"holder": candidate.node_id, "token": candidate.token, "address": candidate.address}
            statement = LEASE.update().values(epoch=LEASE.c.epoch + 1, renewals=LEASE.c.renewals + 1, **changes)
            if expected is not None:
                statement = statement.where(
                    LEASE.c.epoch == expected.epoch,
                    LEASE.c.renewals == expected.renewals,
                    LEASE.c.next_offset == expected.next_offset,
                    LEASE.c.holder == expected.holder,
                )
            if connection.execute(statement.returning(LEASE.c.epoch)).first() is None:
                return None
            return self._read(connection, position, asked_ms)

    def renew(self, epoch: int, seen_offset: int = -1, seen_epoch: int = -1) -> tuple[Lease, float]:
        """Confirms the lease; returns the row and when that was asked. Deposed if it is somebody else's now.

        What was seen beyond the log (a restored backup) is kept in the row for whoever comes next.
        """
        seen = {"seen_offset": seen_offset, "seen_epoch": seen_epoch, "accepted_offset": -1} if seen_offset >= 0 else {}
        statement = LEASE.update().where(LEASE.c.epoch == epoch).values(renewals=LEASE.c.renewals + 1, **seen)
        with self._translated():
            asked_ms = self._monotonic_ms()
            row = self._connection.execute(statement.returning(*_LEASE_COLUMNS)).first()
            if row is None:
                raise self._deposed(self._connection, epoch)
        return Lease(*row), asked_ms

    def witness(self, seen_offset: int, seen_epoch: int) -> None:
        """Leaves word of an offset that this database does not have; whoever is active resigns when it reads it."""
        changes = {"seen_offset": seen_offset, "seen_epoch": seen_epoch, "accepted_offset": -1}
        unknown = sa.and_(LEASE.c.next_offset <= seen_offset, LEASE.c.seen_offset < seen_offset)
        with self._translated():
            self._connection.execute(LEASE.update().where(unknown).values(**changes))

    def give_up(self, seen_offset: int) -> bool:
        """An operator gives up what was seen up to an offset; False if the row names another one."""
        with self._translated():
            statement = LEASE.update().where(LEASE.c.seen_offset == seen_offset).values(accepted_offset=seen_offset)
            return self._connection.execute(statement.returning(LEASE.c.epoch)).first() is not None

    def release(self, candidate: Candidate) -> None:
        """Gives this controller's lease away, if it has it; whoever wants it need not wait."""
        mine = sa.and_(LEASE.c.holder == candidate.node_id, LEASE.c.token == candidate.token)
        with self._translated():
            given = LEASE.update().where(mine).values(holder=NOBODY, token="", renewals=LEASE.c.renewals + 1)
            self._connection.execute(given)

    # -- the log --------------------------------------------------------------------------------------------------

    def append(self, epoch: int, records: Sequence[StoredRecord], changes: Iterable["RowsChange"]) -> float:
        """Appends records whose offsets follow the log's end; Deposed if the lease is not this epoch's any more.

        Returns when the commit was asked for: until then nobody could take the lease.
        """
        first, end = records[0].offset, records[-1].offset + 1
        with self._transaction(epoch, first, end) as connection:
            rows.insert(connection, RECORDS, _RECORD_NAMES, [_row(record) for record in records])
            self._project(connection, changes)
        return self._committed_ms

    def snapshot(self, epoch: int, snapshot: StoredSnapshot, timestamp_ms: int, keep_from: int) -> float:
        """Adds a snapshot and drops older ones and the records below keep_from, which it must cover."""
        assert keep_from <= snapshot.end_offset
        with self._transaction(epoch) as connection:
            self._write_snapshot(connection, snapshot, timestamp_ms)
            connection.execute(RECORDS.delete().where(RECORDS.c.offset < keep_from))
        return self._committed_ms

    def restart(
        self, lease: Lease, snapshot: StoredSnapshot, timestamp_ms: int, changes: Iterable["RowsChange"]
    ) -> None:
        """Begins a new epoch of an accepted log with nothing but a snapshot, beyond all that anybody saw."""
        assert snapshot.end_offset > lease.next_offset and snapshot.epoch > lease.epoch
        values = {"epoch": snapshot.epoch, "seen_offset": -1, "seen_epoch": -1, "accepted_offset": -1}
        with self._transaction(lease.epoch, lease.next_offset, snapshot.end_offset) as connection:
            connection.execute(LEASE.update().values(**values))
            self._write_snapshot(connection, snapshot, timestamp_ms)
            connection.execute(RECORDS.delete())
            self._project(connection, changes)

    def report(
        self,
        epoch: int,
        coordinator_id: int,
        part: ReportPart,
    ) -> None:
        """Stores a part of what one service reports; with the last one goes what the report before told besides."""
        table = _REPORTED[part.kind]
        with self._transaction(epoch) as connection:
            names = [column.name for column in table.primary_key]
            of_keys = {tuple(row[name] for name in names): row for row in part.rows}
            if of_keys:  # another coordinator may still list what moved here
                keys = [{_KEY + name: value for name, value in zip(names, key, strict=True)} for key in of_keys]
                connection.execute(_DELETE[part.kind], keys)
                connection.execute(
                    table.insert(), [{**row, "coordinator_id": coordinator_id} for row in of_keys.values()]
                )
            if part.last:
                earlier = sa.and_(table.c.coordinator_id == coordinator_id, table.c.reported_ms != part.reported_ms)
                if table is QUOTA_USAGE:
                    earlier = sa.or_(earlier, table.c.reported_ms < part.reported_ms - _USAGE_MS)
                connection.execute(table.delete().where(earlier))

    # -- waiting --------------------------------------------------------------------------------------------------

    def listen(self) -> int | None:
        """Where news can be waited for: a file descriptor, None if there are some already, -1 if it cannot be."""
        if self._postgres is None:
            return -1
        with self._translated():
            return None if self._postgres.take_notifications(self._connection) else self._postgres.fileno()

    def close(self) -> None:
        """Closes the connection."""
        if self._open is not None:
            self._open.close()
            self._open = None
        self._engine.close()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _know_schema(self) -> None:
        if self._known:
            return
        if not sa.inspect(self._connection).has_table("schema_version"):
            self._create()
        version = self._version(self._connection)
        if OLDEST_VERSION <= version < SCHEMA_VERSION:
            if not self._may_upgrade:
                raise StoreError(no_way_back(version))
            version = self._migrate()
        if version == SCHEMA_VERSION and not is_complete(self._connection):
            self._complete()
        if version != SCHEMA_VERSION and self._lowest_reader(version) > SCHEMA_VERSION:
            raise StoreError(
                f"the metadata database has schema version {version}, this Tailrace knows {SCHEMA_VERSION}: a newer "
                "version has changed it. Install that version, or restore the backup that was made before the change"
            )
        self._known = True

    def _lowest_reader(self, version: int) -> int:
        """The oldest schema whose Tailrace may work on a newer one: itself, unless the newer one said otherwise."""
        if version < SCHEMA_VERSION or not sa.inspect(self._connection).has_table(READERS.name):
            return max(version, SCHEMA_VERSION + 1)
        return int(self._connection.execute(sa.select(READERS.c.version)).scalar_one())

    @staticmethod
    def _version(connection: sa.Connection) -> int:
        return int(connection.execute(sa.select(VERSION.c.version)).scalar_one())

    def _migrate(self) -> int:
        """An older release's database; whoever comes second finds it done."""
        with self._transaction() as connection:
            if self._postgres is not None:
                self._postgres.lock_creation(connection)
            if self._version(connection) < SCHEMA_VERSION:
                migrate(connection)
                self._engine.prepare(connection)
            return self._version(connection)

    def _complete(self) -> None:
        """The database of a version that had fewer tables, and that may work on it again."""
        with self._transaction() as connection:
            if self._postgres is not None:
                self._postgres.lock_creation(connection)
            complete(connection)

    def _create(self) -> None:
        with self._transaction() as connection:
            if self._postgres is not None:
                self._postgres.lock_creation(connection)
                if sa.inspect(connection).has_table("schema_version"):
                    return
            complete(connection)
            connection.execute(VERSION.insert(), {"version": SCHEMA_VERSION})
            first = Lease(holder=NOBODY, token="", epoch=0, renewals=0, next_offset=0)
            connection.execute(LEASE.insert(), {"id": 1, **{n: getattr(first, n) for n in Lease.__dataclass_fields__}})
            self._engine.prepare(connection)

    def _read(self, connection: sa.Connection, position: ReplayPosition, asked_ms: float) -> StoredLog:
        loaded = self._read_on(connection, position, asked_ms)
        return loaded or self._read_whole(connection, position, asked_ms)

    def _read_on(self, connection: sa.Connection, position: ReplayPosition, asked_ms: float) -> StoredLog | None:
        """The row and what continues the position, of one moment by one statement; None if nothing does."""
        before = position.next_offset - 1
        if before < 0:
            return None
        joined = LEASE.outerjoin(RECORDS, RECORDS.c.offset >= before)
        query = sa.select(*_LEASE_COLUMNS, *_RECORD_COLUMNS).select_from(joined).order_by(RECORDS.c.offset)
        rows = connection.execute(query).all()
        lease = Lease(*rows[0][: len(_LEASE_COLUMNS)])
        found = [StoredRecord(*row[len(_LEASE_COLUMNS) :]) for row in rows if row[-1] is not None]
        if found and (found[0].offset, found[0].epoch) == (before, position.epoch):
            return StoredLog(lease, tuple(found[1:]), asked_ms, whole=False)
        if not found and lease.next_offset == position.next_offset:  # a snapshot has taken its place
            return StoredLog(lease, (), asked_ms, whole=False)
        return None

    def _read_whole(self, connection: sa.Connection, position: ReplayPosition, asked_ms: float) -> StoredLog:
        """Several statements: inside a transaction that holds the row, or sees one moment."""
        lease = Lease(*connection.execute(sa.select(*_LEASE_COLUMNS)).one())
        newest = connection.execute(sa.select(SNAPSHOTS).order_by(SNAPSHOTS.c.end_offset.desc())).first()
        rows = connection.execute(sa.select(*_RECORD_COLUMNS).order_by(RECORDS.c.offset)).all()
        snapshot = None if newest is None else StoredSnapshot(newest.end_offset, newest.epoch, newest.payload)
        records = tuple(StoredRecord(*row) for row in rows)
        before = position.next_offset - 1
        other = any(record.offset == before and record.epoch != position.epoch for record in records)
        return StoredLog(lease, records, asked_ms, snapshot, diverged=other or lease.next_offset <= before)

    def _write_snapshot(self, connection: sa.Connection, snapshot: StoredSnapshot, timestamp_ms: int) -> None:
        row = {"end_offset": snapshot.end_offset, "epoch": snapshot.epoch, "timestamp_ms": timestamp_ms}
        connection.execute(SNAPSHOTS.delete())
        connection.execute(SNAPSHOTS.insert(), {**row, "payload": snapshot.payload})

    def _project(self, connection: sa.Connection, changes: Iterable["RowsChange"]) -> None:
        deletes: dict[tuple[str, ...], list[dict[str, object]]] = {}
        writes: dict[tuple[str, ...], list[tuple[object, ...]]] = {}
        for change in changes:
            if change.row is not None:
                whole = (change.table, *change.key, *change.row)
                writes.setdefault(whole, []).append((*change.key.values(), *change.row.values()))
            else:
                keys = {f"key_{name}": value for name, value in change.key.items()}
                deletes.setdefault((change.table, *change.key), []).append(keys)
        for (name, *columns), keyed in deletes.items():
            table = PROJECTIONS[name]
            match = sa.and_(*(table.c[column] == sa.bindparam(f"key_{column}") for column in columns))
            connection.execute(table.delete().where(match), keyed)
        for (name, *columns), written in writes.items():
            rows.insert(connection, PROJECTIONS[name], tuple(columns), written, replace=True)

    @property
    def _connection(self) -> sa.Connection:
        if self._open is None or self._open.closed:
            self._open = self._engine.connect()
        return self._open

    @contextmanager
    def _translated(self) -> "Iterator[None]":
        """For statements outside a transaction: what fails drops the connection."""
        try:
            yield
        except DBAPIError as failure:
            self._abandon()
            raise OutcomeUnknown(_why(failure)) from failure

    @contextmanager
    def _transaction(
        self,
        epoch: int | None = None,
        expected_offset: int | None = None,
        next_offset: int | None = None,
        begin: "Callable[[sa.Connection], None] | None" = None,
    ) -> "Iterator[sa.Connection]":
        """A transaction; with an epoch it first changes the lease row, which locks it, and checks it there."""
        with self._translated():
            connection = self._connection
            (begin or self._engine.begin)(connection)
        try:
            if epoch is not None:
                self._hold_lease(connection, epoch, expected_offset, next_offset)
            yield connection
        except BaseException as failure:
            self._abandon()
            if _is_of_content(failure):
                raise ContentRefused(_why(failure)) from failure
            if isinstance(failure, DBAPIError):
                raise OutcomeUnknown(_why(failure)) from failure
            raise
        with self._translated():
            self._committed_ms = self._monotonic_ms()
            connection.exec_driver_sql("COMMIT")

    def _hold_lease(
        self, connection: sa.Connection, epoch: int, expected_offset: int | None, next_offset: int | None
    ) -> None:
        values: dict[str, object] = {"renewals": LEASE.c.renewals + 1}
        if next_offset is not None:
            values["next_offset"] = next_offset
        statement = LEASE.update().where(LEASE.c.epoch == epoch)
        if expected_offset is not None:
            statement = statement.where(LEASE.c.next_offset == expected_offset)
        if connection.execute(statement.values(**values).returning(LEASE.c.epoch)).first() is None:
            raise self._deposed(connection, epoch, expected_offset)

    def _deposed(self, connection: sa.Connection, epoch: int, expected_offset: int | None = None) -> Exception:
        lease = Lease(*connection.execute(sa.select(*_LEASE_COLUMNS)).one())
        if lease.epoch == epoch:
            return OutcomeUnknown(f"the log ends at {lease.next_offset}, an append at {expected_offset} was wanted")
        who = f"controller {lease.holder} took the lease with epoch {lease.epoch}"
        return Deposed(f"{who}; this one has {epoch}")

    def _abandon(self) -> None:
        """Drops the connection, and with it whatever a transaction did."""
        connection, self._open = self._open, None
        if connection is not None:
            connection.invalidate()
            connection.close()
        self._engine.disconnected()


def _is_of_content(failure: BaseException) -> bool:
    """Whether the same statement would fail again: a value that the database, or its driver, cannot hold."""
    if not isinstance(failure, DBAPIError):
        return isinstance(failure, UnicodeError | OverflowError)
    state = getattr(failure.orig, "sqlstate", None) or ""
    return isinstance(failure, DataError) or state[:2] in _CONTENT_CLASSES


def _why(failure: BaseException) -> str:
    return str(getattr(failure, "orig", failure)).strip().partition("\n")[0]
