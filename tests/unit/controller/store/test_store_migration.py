"""A metadata database that an earlier release left is brought up to date: the file is a real one's dump."""

import sqlite3
from pathlib import Path

import pytest

from support.waiting import HUNG_S
from tailrace.kafka.lag import lag
from tailrace_controller.metadata_log import bootstrap
from tailrace_controller.metadata_log.lease_row import Candidate
from tailrace_controller.metadata_log.stored import ReplayPosition, StoreError
from tailrace_controller.store import Store
from tailrace_controller.store.schema import SCHEMA_VERSION

DUMP = Path(__file__).parent / "testdata" / "metadata-schema-1.sql"


def open_store(path: Path, *, may_upgrade: bool = True) -> Store:
    return Store(f"sqlite:///{path}", lambda: 0.0, lambda _: None, may_upgrade=may_upgrade)


def tables(path: Path) -> list[tuple[str]]:
    with sqlite3.connect(path) as user:
        found = user.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall()
    user.close()
    return found


def change(path: Path, script: str) -> None:
    with sqlite3.connect(path) as database:
        database.executescript(script)
    database.close()


def old_database(directory: Path) -> Path:
    path = directory / "metadata.db"
    change(path, DUMP.read_text())
    return path


def new_database(directory: Path, script: str) -> Path:
    """One that this version made, whose lease was taken, changed by a script."""
    path = directory / "metadata.db"
    store = open_store(path)
    store.take(Candidate(0, "token", ""), None, ReplayPosition(0, -1))
    store.close()
    change(path, script)
    return path


def test_schema_1_keeps_its_log_its_epoch_and_its_views(tmp_path: Path) -> None:
    path = old_database(tmp_path)
    store = open_store(path)
    loaded = store.take(Candidate(0, "token", ""), None, ReplayPosition(0, -1))
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
    path = new_database(
        tmp_path,
        "DROP VIEW transactions; DROP TABLE transaction_rows; UPDATE schema_version SET version = 2;"
        "INSERT INTO group_rows (group_id, coordinator_id) VALUES ('g', 0);",
    )
    store = open_store(path)
    assert store.follow(ReplayPosition(0, -1)).lease.epoch == 1
    store.close()
    with sqlite3.connect(path) as user:
        assert user.execute("SELECT version FROM schema_version").fetchall() == [(SCHEMA_VERSION,)]
        assert user.execute("SELECT transactional_id FROM transactions").fetchall() == []
        assert user.execute("SELECT group_id FROM groups").fetchall() == [("g",)]
    user.close()


def test_a_table_that_is_only_added_is_no_other_schema(tmp_path: Path) -> None:
    as_an_earlier_version_left_it = "DROP VIEW quota_usage; DROP TABLE quota_usage_rows;"
    path = new_database(tmp_path, as_an_earlier_version_left_it)
    store = open_store(path, may_upgrade=False)
    assert store.follow(ReplayPosition(0, -1)).lease.epoch == 1
    store.close()
    with sqlite3.connect(path) as user:
        assert user.execute("SELECT version FROM schema_version").fetchall() == [(SCHEMA_VERSION,)]
        assert user.execute("SELECT entity, throttled FROM quota_usage").fetchall() == []
    user.close()


def test_the_view_of_an_earlier_version_whose_lag_may_be_negative_is_replaced(tmp_path: Path) -> None:
    path = new_database(
        tmp_path,
        "DROP VIEW group_offsets;"
        "ALTER TABLE group_offset_rows DROP COLUMN next_timestamp_ms;"
        "ALTER TABLE group_offset_rows DROP COLUMN lag_trend;"
        "CREATE VIEW group_offsets AS SELECT log_end_offset - committed_offset AS lag FROM group_offset_rows;"
        "INSERT INTO group_offset_rows (group_id, topic, partition_id, committed_offset, log_end_offset)"
        " VALUES ('g', 't', 0, 94, 6), ('g', 't', 1, 2, 6), ('g', 't', 2, 2, NULL);",
    )
    store = open_store(path, may_upgrade=False)
    assert store.follow(ReplayPosition(0, -1)).lease.epoch == 1
    store.close()
    with sqlite3.connect(path) as user:
        told = user.execute("SELECT committed_offset, log_end_offset, lag FROM group_offsets ORDER BY partition_id")
        assert told.fetchall() == [(94, 6, lag(94, 6)), (2, 6, lag(2, 6)), (2, None, None)]
        ages = user.execute("SELECT lag_seconds, lag_trend, next_timestamp_ms FROM group_offsets ORDER BY partition_id")
        assert ages.fetchall() == [(0.0, None, None), (None, None, None), (None, None, None)]
        user.execute("UPDATE group_offset_rows SET next_timestamp_ms = unixepoch() * 1000 - 60000")
        ((age,),) = user.execute("SELECT lag_seconds FROM group_offsets WHERE partition_id = 1")
        assert 60 <= age < 60 + HUNG_S
    user.close()


def test_a_secret_that_an_earlier_version_showed_is_taken_out_of_the_view(tmp_path: Path) -> None:
    path = new_database(
        tmp_path,
        "INSERT INTO config_rows (resource_type, resource_name, name, value) VALUES"
        " ('broker', '0', 'sasl.jaas.config', 'hunter2'), ('broker', '0', 'log.retention.ms', '1000'),"
        " ('topic', 'sasl.jaas.config', 'retention.ms', '5');",
    )
    store = open_store(path, may_upgrade=False)
    store.follow(ReplayPosition(0, -1))
    store.close()
    with sqlite3.connect(path) as user:
        rows = user.execute("SELECT name, value FROM configs ORDER BY name").fetchall()
        assert rows == [("log.retention.ms", "1000"), ("retention.ms", "5"), ("sasl.jaas.config", None)]
    user.close()


def test_an_older_schema_stays_as_it_is_until_the_operator_agrees(tmp_path: Path) -> None:
    path = old_database(tmp_path)
    before = tables(path)
    store = open_store(path, may_upgrade=False)
    with pytest.raises(StoreError, match=f"version 1, and this Tailrace would change it to {SCHEMA_VERSION}.*no way b"):
        store.take(Candidate(0, "token", ""), None, ReplayPosition(0, -1))
    store.close()
    assert tables(path) == before


@pytest.mark.parametrize(("lowest_reader", "may_work"), [(SCHEMA_VERSION, True), (SCHEMA_VERSION + 1, False)])
def test_a_newer_schema_says_which_older_versions_may_work_on_it(
    tmp_path: Path, lowest_reader: int, may_work: bool
) -> None:
    path = new_database(
        tmp_path,
        f"UPDATE schema_version SET version = {SCHEMA_VERSION + 1}; CREATE TABLE schema_readers (version integer);"
        f"INSERT INTO schema_readers VALUES ({lowest_reader});",
    )
    store = open_store(path)
    if may_work:
        assert store.follow(ReplayPosition(0, -1)).lease.epoch == 1
    else:
        with pytest.raises(StoreError, match="a newer version has changed it"):
            store.follow(ReplayPosition(0, -1))
    store.close()


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = old_database(tmp_path)
    change(path, "UPDATE schema_version SET version = 99;")
    store = open_store(path)
    with pytest.raises(StoreError, match="schema version 99"):
        store.follow(ReplayPosition(0, -1))
    store.close()
