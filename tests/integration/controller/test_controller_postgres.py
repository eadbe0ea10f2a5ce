"""The same store on a real PostgreSQL server: what only it does, and what both do."""

import select
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from support.metadata import broker, topic
from support.postgres import Postgres
from support.tcp_proxy import TcpProxy
from support.waiting import HUNG_S
from tailrace.config import Config
from tailrace.kafka.lag import LAG_IN_SQL
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.replay import replay
from tailrace_controller.metadata_log import projection
from tailrace_controller.metadata_log.lease_row import NOBODY, Candidate
from tailrace_controller.metadata_log.stored import (
    Deposed,
    OutcomeUnknown,
    ReplayPosition,
    ReportPart,
    StoredLog,
    StoredRecord,
    StoredSnapshot,
)
from tailrace_controller.store import Store
from tailrace_controller.store.schema import VIEWS


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.url


def opened(url: str) -> Store:
    return Store(url, lambda: 0.0, lambda sentence: None)


def load(store: Store, node_id: int = 0) -> StoredLog:
    """Takes the lease and reads the whole log."""
    loaded = store.take(Candidate(node_id), None, ReplayPosition())
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
    image = replay(MetadataImage(), records, 0, 1)
    store.append(1, rows(0, 3, 1), projection.changes(records, MetadataImage(), image, Config.load("controller")))
    store.snapshot(1, StoredSnapshot(3, 1, b"image"), 0, keep_from=2)
    group = {"group_id": "g", "state": "Stable", "type": "classic", "members": 1, "reported_ms": 5}
    store.report(1, 0, ReportPart("groups", [group], 5, last=True))
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


def test_a_server_that_says_nothing_is_given_up_when_the_store_is_interrupted(postgres: Postgres) -> None:
    proxy = TcpProxy(postgres.port)
    store = opened(postgres.url_at(proxy.port))
    load(store)
    proxy.hang()
    timer = threading.Timer(0.2, store.interrupt)
    timer.start()
    with pytest.raises(OutcomeUnknown):
        store.renew(1)
    timer.join()
    proxy.mend()
    assert store.renew(1)[0].epoch == 1
    store.close()
    proxy.close()


def test_the_lease_goes_to_one_of_those_who_judged_the_same_row(url: str) -> None:
    first, second = opened(url), opened(url)
    row = first.follow(ReplayPosition()).lease
    assert second.follow(ReplayPosition()).lease == row
    taken = first.take(Candidate(0, "a", "unix:/a"), row, ReplayPosition())
    assert taken is not None
    assert (taken.lease.holder, taken.lease.epoch, taken.lease.address) == (0, 1, "unix:/a")
    assert second.take(Candidate(1, "b"), row, ReplayPosition()) is None
    first.close()
    second.close()


def test_a_change_of_the_lease_row_is_heard_by_the_others(url: str) -> None:
    holder, standby = opened(url), opened(url)
    load(holder)
    position = ReplayPosition(standby.follow(ReplayPosition()).next_offset)
    fd = standby.listen()
    assert isinstance(fd, int) and fd >= 0
    holder.append(1, rows(0, 2, 1), [])
    assert select.select([fd], [], [], HUNG_S)[0]
    loaded = standby.follow(position)
    assert [record.offset for record in loaded.records] == [0, 1]
    assert standby.listen() is None or fd >= 0
    holder.release(Candidate(0))
    assert select.select([fd], [], [], HUNG_S)[0]
    assert standby.follow(position).lease.holder == NOBODY
    holder.close()
    standby.close()


def test_a_listener_whose_connection_postgresql_ended_is_told_so_and_reads_on(url: str) -> None:
    standby = opened(url)
    standby.follow(ReplayPosition())
    watched = standby.listen()
    assert watched is not None
    query(url, "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
    with pytest.raises(OutcomeUnknown, match=r"terminat|closed"):
        for _ in range(3):  # the reason, then the end of the stream; then there is nothing to wait for
            assert select.select([watched], [], [], HUNG_S)[0]
            standby.listen()
    assert standby.follow(ReplayPosition()).lease.holder == NOBODY
    standby.close()


def test_what_continues_a_position_is_read_alone_and_another_log_is_seen(url: str) -> None:
    store = opened(url)
    load(store)
    store.append(1, rows(0, 3, 1), [])
    behind = store.follow(ReplayPosition(1, 1))
    assert (behind.whole, [record.offset for record in behind.records]) == (False, [1, 2])
    for other in (ReplayPosition(3, 9), ReplayPosition(4, 1)):
        read = store.follow(other)
        assert (read.whole, read.diverged, len(read.records)) == (True, True, 3)
    store.snapshot(1, StoredSnapshot(3, 1, b"image"), 0, keep_from=3)
    assert store.follow(ReplayPosition(3, 1)).whole is False
    cut = store.follow(ReplayPosition(1, 1))
    assert (cut.whole, cut.diverged, cut.snapshot) == (True, False, StoredSnapshot(3, 1, b"image"))
    store.close()


def test_an_accepted_log_begins_anew_beyond_what_was_seen(url: str) -> None:
    store = opened(url)
    load(store)
    store.append(1, rows(0, 3, 1), [])
    store.witness(50, 7)
    store.witness(40, 7)  # less than is known
    lease = store.renew(1)[0]
    assert (lease.seen_offset, lease.seen_epoch, lease.accepted_offset) == (50, 7, -1)
    assert not store.give_up(49)
    assert store.give_up(50)
    lease = store.renew(1)[0]
    assert lease.accepted_offset == 50
    store.restart(lease, StoredSnapshot(1051, 1007, b"image"), 0, [])
    loaded = store.follow(ReplayPosition())
    assert (loaded.epoch, loaded.next_offset, loaded.lease.seen_offset) == (1007, 1051, -1)
    assert (loaded.records, loaded.snapshot) == ((), StoredSnapshot(1051, 1007, b"image"))
    with pytest.raises(Deposed):
        store.renew(1)
    store.close()


def test_two_controllers_that_start_on_an_empty_server_create_its_schema_once(url: str) -> None:
    stores = [opened(url) for _ in range(4)]
    with ThreadPoolExecutor(len(stores)) as threads:
        loaded = list(threads.map(lambda store: store.follow(ReplayPosition()), stores))
    assert {row.lease.epoch for row in loaded} == {0}
    for store in stores:
        store.close()


def test_a_view_that_is_replaced_keeps_its_readers_and_the_views_upon_it(url: str) -> None:
    store = opened(url)
    load(store)
    store.close()
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    (view,) = (one for one in VIEWS if LAG_IN_SQL in one)
    begin, _, rest = view.partition(LAG_IN_SQL)
    columns, _, source = rest.partition(", next_timestamp_ms")
    negative = f"{begin} log_end_offset - committed_offset {columns} FROM{source.rpartition('FROM')[2]}"
    with engine.begin() as user:
        for statement in (
            "DROP VIEW group_offsets",
            negative,  # as an earlier version made it
            "CREATE ROLE dashboard",
            "GRANT SELECT ON group_offsets TO dashboard",
            "ALTER TABLE group_offset_rows DROP COLUMN next_timestamp_ms, DROP COLUMN lag_trend",
            "CREATE VIEW lagging AS SELECT group_id, lag FROM group_offsets",
            "INSERT INTO group_offset_rows (group_id, topic, partition_id, committed_offset, log_end_offset)"
            " VALUES ('g', 't', 0, 94, 6)",
        ):
            user.execute(sa.text(statement))
    engine.dispose()
    store = opened(url)
    assert store.follow(ReplayPosition()).lease.epoch == 1
    store.close()
    assert query(url, "SELECT * FROM lagging") == [("g", 0)]
    query_of_ages = "SELECT lag_seconds, lag_trend, next_timestamp_ms FROM group_offsets"
    assert query(url, query_of_ages) == [(0.0, None, None)]
    with engine.begin() as user:
        aged = "SET committed_offset = 2, next_timestamp_ms = extract(epoch FROM clock_timestamp()) * 1000 - 60000"
        user.execute(sa.text(f"UPDATE group_offset_rows {aged}"))
    engine.dispose()
    ((age, _, _),) = query(url, query_of_ages)
    assert isinstance(age, float) and 60 <= age < 60 + HUNG_S
    assert query(url, "SELECT has_table_privilege('dashboard', 'group_offsets', 'SELECT')") == [(True,)]
