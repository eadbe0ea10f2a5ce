"""PostgreSQL: one connection that notices a database which hangs, and hears when the lease row changes.

Whatever does not answer must not keep a controller waiting: the server ends statements, waits for locks and sessions
that idle in a transaction; the kernel ends a connection whose peer acknowledges nothing; and for a peer that
acknowledges and says nothing, interrupt() shuts the socket down under the waiting thread.
"""

import os
import socket
import threading
from typing import Any

import sqlalchemy as sa

from tailrace_controller.metadata_log.stored import OutcomeUnknown, StoreError

CHANNEL = "tailrace_metadata"
CONNECT_TIMEOUT_S = 2  # libpq's least
STATEMENT_LEASES = 5  # an append holds the lease row's lock: nobody takes the lease from under it
# Schemas are made once, by whoever comes first.
_CREATION_LOCK = 7_102_474
_TRIGGER = (
    "CREATE FUNCTION tailrace_lease_changed() RETURNS trigger LANGUAGE plpgsql AS"
    f" $$ BEGIN PERFORM pg_notify('{CHANNEL}', NEW.epoch || ' ' || NEW.next_offset); RETURN NULL; END $$",
    "CREATE TRIGGER lease_changed AFTER UPDATE ON lease FOR EACH ROW EXECUTE FUNCTION tailrace_lease_changed()",
)


class Postgres:
    """A server that several controllers share."""

    def __init__(self, url: str, lease_ms: float) -> None:
        if url.startswith("postgresql://"):  # the driver we come with, whatever SQLAlchemy's default is
            url = url.replace("postgresql://", "postgresql+psycopg://", 1)
        try:
            self._engine = sa.create_engine(
                url,
                poolclass=sa.pool.NullPool,
                isolation_level="AUTOCOMMIT",
                connect_args=connect_arguments(lease_ms),
            )
        except ModuleNotFoundError as missing:
            raise StoreError(f"metadata.url needs a driver (pip install 'tailrace[postgres]'): {missing}") from missing
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._connecting = self._given_up = False

    def connect(self) -> sa.Connection:
        """Connects, and listens for changes of the lease row."""
        with self._lock:
            self._connecting, self._given_up = True, False
        try:
            connection = self._engine.connect()
        finally:
            with self._lock:
                self._connecting = False
        try:
            self._hold(_driver(connection).fileno())
            connection.exec_driver_sql(f"LISTEN {CHANNEL}")
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        return connection

    def _hold(self, fd: int) -> None:
        with self._lock:
            if self._given_up:
                raise OutcomeUnknown("nobody waits for this connection any more")
            self._socket = socket.socket(fileno=os.dup(fd))

    def begin(self, connection: sa.Connection) -> None:
        """Locks come with the first statements."""
        connection.exec_driver_sql("BEGIN")

    def begin_read(self, connection: sa.Connection) -> None:
        """All statements see the moment of the first."""
        connection.exec_driver_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def prepare(self, connection: sa.Connection) -> None:
        """The trigger that tells the other controllers of every change of the lease row."""
        for statement in _TRIGGER:
            connection.exec_driver_sql(statement)

    def lock_creation(self, connection: sa.Connection) -> None:
        """Held to the end of the transaction."""
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})")

    def take_notifications(self, connection: sa.Connection) -> bool:
        """Whether the lease row changed since the last question; forgets it. Raises DBAPIError as statements do."""
        dbapi: Any = self._engine.dialect.dbapi
        try:
            return any(True for _ in list(_driver(connection).notifies(timeout=0)))
        except dbapi.Error as failure:  # SQLAlchemy does not see what is asked of the driver
            raise sa.exc.DBAPIError(None, None, failure) from failure

    def fileno(self) -> int:
        """Of our own hold on the connection's socket: readable when something was heard; -1 without one."""
        with self._lock:
            return -1 if self._socket is None else self._socket.fileno()

    def disconnected(self) -> None:
        """Lets go of the socket."""
        with self._lock:
            held, self._socket = self._socket, None
        if held is not None:
            held.close()

    def interrupt(self) -> bool:
        """Ends the connection under whoever waits for it; harmless without one."""
        with self._lock:
            if self._connecting:
                self._given_up = True
            if self._socket is not None:
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return False  # the peer was faster
            return self._connecting

    def close(self) -> None:
        """Forgets the URL's engine."""
        self.disconnected()
        self._engine.dispose()


def connect_arguments(lease_ms: float) -> dict[str, object]:
    """libpq's parameters: what hangs is noticed within a lease or so; what the URL says itself comes first."""
    settings = {
        "statement_timeout": int(lease_ms * STATEMENT_LEASES),
        "lock_timeout": int(lease_ms / 2),
        "idle_in_transaction_session_timeout": int(lease_ms),
        "synchronous_commit": "on",
    }
    return {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "keepalives_idle": 1,
        "keepalives_interval": 1,
        "keepalives_count": 2,
        "tcp_user_timeout": int(lease_ms),
        "application_name": "tailrace-controller",
        "prepare_threshold": None,
        "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
    }


def _driver(connection: sa.Connection) -> Any:
    """psycopg's connection below SQLAlchemy's."""
    driver = connection.connection.driver_connection
    assert driver is not None
    return driver
