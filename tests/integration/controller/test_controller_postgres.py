"""The same store on a real PostgreSQL server, started here on a Unix socket."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from support.metadata import broker, topic
from tailrace.config import Config
from tailrace.metadata.image import MetadataImage
from tailrace_controller import projection
from tailrace_controller.lease import Candidate
from tailrace_controller.store import Store
from tailrace_controller.stored import Deposed, Loaded, OutcomeUnknown, Position, StoredRecord, StoredSnapshot

AS_POSTGRES = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
INITDB = shutil.which("initdb")

pytestmark = pytest.mark.skipif(INITDB is None, reason="PostgreSQL's initdb is not on the PATH")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server's URL; it runs as the user postgres where the tests run as root, which PostgreSQL refuses."""
    base = Path("/tmp") / f"tailrace-pg-{os.getpid()}"  # short: a socket path has 107 bytes, and postgres must enter it
    base.mkdir(mode=0o755)
    if AS_POSTGRES:
        shutil.chown(base, "postgres")
    data = str(base / "data")
    options = f"-k {base} -c listen_addresses= -c fsync=off"
    control = [*AS_POSTGRES, shutil.which("pg_ctl") or "pg_ctl", "-D", data, "-w", "-l", str(base / "log")]
    initialise = [*AS_POSTGRES, INITDB or "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"]
    try:
        subprocess.run(initialise, check=True, capture_output=True, cwd="/")
        subprocess.run([*control, "-o", options, "start"], check=True, capture_output=True, cwd="/")
        yield f"postgresql://postgres@/postgres?host={base}"
        subprocess.run([*control, "-m", "immediate", "stop"], check=True, capture_output=True, cwd="/")
    finally:
        shutil.rmtree(base)


@pytest.fixture
def url(server: str) -> str:
    """The server with an empty schema."""
    engine = sa.create_engine(server.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        connection.execute(sa.text("CREATE SCHEMA public"))
    engine.dispose()
    return server


def opened(url: str) -> Store:
    return Store(url, lambda: 0.0, lambda sentence: None)


def load(store: Store, node_id: int = 0) -> Loaded:
    """Takes the lease and reads the whole log."""
    loaded = store.take(Candidate(node_id), None, Position())
    assert loaded is not None
    return loaded


def rows(first: int, count: int, epoch: int) -> list[StoredRecord]:
    return [StoredRecord(first + n, first, epoch, 5, "NoOpRecord", b"\x01\x14\x00\x00") for n in range(count)]


def query(url: str, sql: str) -> list[tuple[object, ...]]:
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(sa.text(sql))]
    engine.dispose()
    return found


def test_log_lease_views_and_snapshots_work_on_postgresql(url: str) -> None:
    store = opened(url)
    assert load(store).epoch == 1
    records = [*broker(0, 1), *topic("events", 1, [0, 0])]
    image = MetadataImage().replay(records, 0, 1)
    store.append(1, rows(0, 3, 1), projection.changes(records, MetadataImage(), image, Config.load("controller")))
    store.snapshot(1, StoredSnapshot(3, 1, b"image"), 0, keep_from=2)
    store.report(1, 0, [{"group_id": "g", "state": "Stable", "type": "classic", "members": 1, "reported_ms": 5}], [])
    store.close()
    again = opened(url)
    loaded = load(again)
    assert (loaded.epoch, loaded.next_offset, loaded.snapshot) == (2, 3, StoredSnapshot(3, 1, b"image"))
    assert [row.offset for row in loaded.records] == [2]
    assert query(url, "select name, partition_count, internal from topics") == [("events", 2, False)]
    assert query(url, "select group_id from groups") == [("g",)]
    again.close()


def test_a_deposed_controllers_append_fails_in_postgresql(url: str) -> None:
    zombie, successor = opened(url), opened(url)
    load(zombie)
    load(successor, 1)
    with pytest.raises(Deposed, match="controller 1 took the lease with epoch 2"):
        zombie.append(1, rows(0, 1, 1), [])
    successor.append(2, rows(0, 1, 2), [])
    assert query(url, 'select "offset", epoch from records') == [(0, 2)]
    zombie.close()
    successor.close()


def test_a_connection_that_postgresql_ends_leaves_the_outcome_unknown_and_a_reload_works(url: str) -> None:
    store = opened(url)
    load(store)
    query(
        url, "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and state = 'idle'"
    )
    with pytest.raises(OutcomeUnknown):
        store.append(1, rows(0, 1, 1), [])
    loaded = load(store)
    store.append(loaded.epoch, rows(loaded.next_offset, 1, loaded.epoch), [])
    store.close()
