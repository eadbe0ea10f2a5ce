"""A metadata database that an earlier release left is brought up to date: the file is a real one's dump."""

import sqlite3
from pathlib import Path

import pytest

from tailrace_controller.election.lease import Candidate
from tailrace_controller.metadata_log import bootstrap
from tailrace_controller.metadata_log.stored import Position, StoreError
from tailrace_controller.store import Store
from tailrace_controller.store.schema import SCHEMA_VERSION

DUMP = Path(__file__).parent / "testdata" / "metadata-schema-1.sql"


def old_database(directory: Path) -> Path:
    path = directory / "metadata.db"
    with sqlite3.connect(path) as database:
        database.executescript(DUMP.read_text())
    database.close()
    return path


def test_schema_1_keeps_its_log_its_epoch_and_its_views(tmp_path: Path) -> None:
    path = old_database(tmp_path)
    store = Store(f"sqlite:///{path}", lambda: 0.0, lambda _: None)
    loaded = store.take(Candidate(0, "token", ""), None, Position(0, -1))
    assert loaded is not None
    image, _ = bootstrap.replay(loaded)
    assert sorted(image.topics) == ["__consumer_offsets", "orders"]
    assert (loaded.lease.epoch, image.offset + 1) == (2, loaded.lease.next_offset)
    store.close()
    with sqlite3.connect(path) as user:
        assert user.execute("SELECT version FROM schema_version").fetchall() == [(SCHEMA_VERSION,)]
        rows = user.execute("SELECT topic, replicas, elr, offline, min_isr FROM partitions ORDER BY 1, partition_id")
        assert rows.fetchall()[2:] == [("orders", "[0]", "[]", 1, 1)] * 2
        assert user.execute("SELECT group_id, committed_offset FROM group_offsets").fetchall() == []
    user.close()


def test_schema_2_gets_the_table_of_transactions_and_keeps_all_it_had(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    new = Store(f"sqlite:///{path}", lambda: 0.0, lambda _: None)
    new.take(Candidate(0, "token", ""), None, Position(0, -1))
    new.close()
    with sqlite3.connect(path) as database:
        database.executescript(
            "DROP VIEW transactions; DROP TABLE transaction_rows; UPDATE schema_version SET version = 2;"
            "INSERT INTO group_rows (group_id, coordinator_id) VALUES ('g', 0);"
        )
    database.close()
    store = Store(f"sqlite:///{path}", lambda: 0.0, lambda _: None)
    assert store.follow(Position(0, -1)).lease.epoch == 1
    store.close()
    with sqlite3.connect(path) as user:
        assert user.execute("SELECT version FROM schema_version").fetchall() == [(SCHEMA_VERSION,)]
        assert user.execute("SELECT transactional_id FROM transactions").fetchall() == []
        assert user.execute("SELECT group_id FROM groups").fetchall() == [("g",)]
    user.close()


def test_schema_3_gets_the_table_of_the_use_of_quotas(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    new = Store(f"sqlite:///{path}", lambda: 0.0, lambda _: None)
    new.take(Candidate(0, "token", ""), None, Position(0, -1))
    new.close()
    with sqlite3.connect(path) as database:
        database.executescript(
            "DROP VIEW quota_usage; DROP TABLE quota_usage_rows; UPDATE schema_version SET version = 3;"
        )
    database.close()
    store = Store(f"sqlite:///{path}", lambda: 0.0, lambda _: None)
    assert store.follow(Position(0, -1)).lease.epoch == 1
    store.close()
    with sqlite3.connect(path) as user:
        assert user.execute("SELECT version FROM schema_version").fetchall() == [(SCHEMA_VERSION,)]
        assert user.execute("SELECT entity, throttled FROM quota_usage").fetchall() == []
    user.close()


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = old_database(tmp_path)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE schema_version SET version = 99")
    database.close()
    store = Store(f"sqlite:///{path}", lambda: 0.0, lambda _: None)
    with pytest.raises(StoreError, match="schema version 99"):
        store.follow(Position(0, -1))
    store.close()
