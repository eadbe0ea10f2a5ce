"""SQLite: WAL, synchronous=FULL. Somebody's write lock is waited out, and the log says whose it is."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from tailrace.private_files import private_opener, take_from_others
from tailrace_controller.metadata_log.lock_holders import describe_holders
from tailrace_controller.metadata_log.stored import OutcomeUnknown

BUSY_TIMEOUT_MS = 250  # how long SQLite waits for somebody's write lock before we look who it is
BLAME_EVERY_MS = 5000


def sqlite_path(url: str) -> Path | None:
    """Returns the file of an SQLite URL, None for any other database."""
    parsed = sa.make_url(url)
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None


class Sqlite:
    """One file of the data directory, whose lock the role holds: no other controller opens it."""

    def __init__(self, url: str, path: Path, monotonic_ms: Callable[[], float], blocked: Callable[[str], None]) -> None:
        self._path = path
        self._monotonic_ms = monotonic_ms
        self._blocked = blocked
        self._stopping = False
        self._engine = sa.create_engine(url, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
        sa.event.listen(self._engine, "connect", _set_up)

    def connect(self) -> sa.Connection:
        """Opens the file, creating it if need be: private, and so are the files SQLite puts beside it."""
        with suppress(OSError), open(self._path, "xb", opener=private_opener):
            pass
        for suffix in ("", "-wal", "-shm"):
            take_from_others(self._path.with_name(self._path.name + suffix))
        return self._engine.connect()

    def begin(self, connection: sa.Connection) -> None:
        """BEGIN IMMEDIATE, waiting out a write lock that somebody else holds, and saying who it is."""
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

    def begin_read(self, connection: sa.Connection) -> None:
        """A reader waits for nobody."""
        connection.exec_driver_sql("BEGIN")

    def prepare(self, connection: sa.Connection) -> None:
        """Nothing: the write lock is held already."""

    def disconnected(self) -> None:
        """Nothing to forget."""

    def interrupt(self) -> bool:
        """The next look at the lock is the last one."""
        self._stopping = True
        return False

    def close(self) -> None:
        """SQLite folds its write-ahead log into the file if nobody else reads it."""
        self._engine.dispose()


def _set_up(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    # FULL: a committed decision is on disk, also after power loss; WAL: readers and the writer do not meet.
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", "journal_mode=WAL", "synchronous=FULL"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
