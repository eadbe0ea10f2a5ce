"""The SQL store on a real SQLite file: epochs, offsets, projections, other people's locks, snapshots."""

import dataclasses
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.metadata import after, broker, topic, topic_id
from support.waiting import HUNG_S
from tailrace.config import Config
from tailrace.metadata import records as r
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.replay import replay
from tailrace_controller.metadata_log import lock_holders, projection
from tailrace_controller.metadata_log.lease_row import Candidate
from tailrace_controller.metadata_log.projection import RowsChange
from tailrace_controller.metadata_log.stored import (
    Deposed,
    OutcomeUnknown,
    ReplayPosition,
    ReportPart,
    StoredLog,
    StoredRecord,
    StoredSnapshot,
    StoreError,
)
from tailrace_controller.store import Store

CONFIG = Config.load("controller")


class Clock:
    """A monotonic clock that goes on a second each time somebody looks: blame comes soon."""

    def __init__(self) -> None:
        self.now_ms = 0.0

    def __call__(self) -> float:
        self.now_ms += 1000
        return self.now_ms


class Bench:
    def __init__(self, directory: Path) -> None:
        self.path = directory / "metadata.db"
        self.blamed: list[str] = []
        self.heard = threading.Event()
        self.store = self.open()

    def open(self) -> Store:
        return Store(f"sqlite:///{self.path}", Clock(), self.blocked)

    def blocked(self, sentence: str) -> None:
        self.blamed.append(sentence)
        self.heard.set()

    def query(self, sql: str) -> list[Any]:
        with closing(sqlite3.connect(self.path)) as user:
            return user.execute(sql).fetchall()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.store.close()


def load(store: Store, node_id: int = 0) -> StoredLog:
    """Takes the lease and reads the whole log."""
    loaded = store.take(Candidate(node_id), None, ReplayPosition())
    assert loaded is not None
    return loaded


def rows(first: int, count: int, epoch: int) -> list[StoredRecord]:
    return [StoredRecord(first + n, first, epoch, 5, "NoOpRecord", b"\x01\x14\x00\x00") for n in range(count)]


def test_an_empty_database_begins_at_epoch_one_and_offset_zero(bench: Bench) -> None:
    loaded = load(bench.store)
    assert (loaded.epoch, loaded.next_offset, loaded.snapshot, loaded.records) == (1, 0, None, ())
    assert bench.query("select version from schema_version") == [(3,)]
    assert bench.query("pragma journal_mode") == [("wal",)]


def test_what_was_appended_is_loaded_with_a_higher_epoch(bench: Bench) -> None:
    load(bench.store)
    bench.store.append(1, rows(0, 2, 1), [])
    bench.store.append(1, rows(2, 1, 1), [])
    bench.store.close()
    loaded = load(bench.open())
    assert (loaded.epoch, loaded.next_offset) == (2, 3)
    assert [(row.offset, row.base_offset) for row in loaded.records] == [(0, 0), (1, 0), (2, 2)]


def test_a_deposed_controllers_append_fails_in_the_database(bench: Bench) -> None:
    load(bench.store)
    successor = bench.open()
    load(successor, 1)
    with pytest.raises(Deposed, match="controller 1 took the lease with epoch 2; this one has 1"):
        bench.store.append(1, rows(0, 1, 1), [])
    successor.append(2, rows(0, 1, 2), [])
    assert bench.query("select offset, epoch from records") == [(0, 2)]
    successor.close()


def test_a_deposed_controller_cannot_write_snapshots_or_reports_either(bench: Bench) -> None:
    load(bench.store)
    successor = bench.open()
    load(successor, 1)
    with pytest.raises(Deposed):
        bench.store.snapshot(1, StoredSnapshot(5, 1, b""), 0, keep_from=0)
    with pytest.raises(Deposed):
        bench.store.report(1, 0, ReportPart("groups", [], 5, last=True))
    successor.close()


def test_an_append_that_does_not_continue_the_log_is_refused(bench: Bench) -> None:
    load(bench.store)
    with pytest.raises(OutcomeUnknown, match="the log ends at 0"):
        bench.store.append(1, rows(7, 1, 1), [])


def test_an_append_that_fails_leaves_nothing_behind(bench: Bench) -> None:
    load(bench.store)
    bad = [RowsChange("topic_rows", {"topic_id": None}, {"name": "t"})]  # violates the primary key
    with pytest.raises(OutcomeUnknown):
        bench.store.append(1, rows(0, 1, 1), bad)
    assert bench.query("select count(*) from records") == [(0,)]
    bench.store.append(1, rows(0, 1, 1), [])  # the store is usable again


def test_a_newer_schema_is_refused_in_a_sentence(bench: Bench) -> None:
    load(bench.store)
    bench.store.close()
    with closing(sqlite3.connect(bench.path)) as user, user:
        user.execute("update schema_version set version = 99")
    with pytest.raises(StoreError, match="schema version 99, this Tailrace knows 3"):
        load(bench.open())


@pytest.mark.parametrize(
    "url", ["sqlite:////no/such/directory/metadata.db", "postgresql://nobody@/none?host=/no/such/directory"]
)
def test_a_database_that_cannot_be_reached_may_be_reached_later(url: str) -> None:
    store = Store(url, Clock(), lambda sentence: None)
    for _ in range(2):
        with pytest.raises(OutcomeUnknown):
            load(store)
    with pytest.raises(OutcomeUnknown):
        store.append(1, rows(0, 1, 1), [])
    store.close()


def test_a_file_that_is_no_database_is_refused(bench: Bench) -> None:
    bench.path.write_bytes(b"this is not a database, but it is long enough to look like one" * 20)
    with pytest.raises(OutcomeUnknown, match="not a database"):
        load(bench.store)


HOLD_WRITE_LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("begin immediate")
print("held", flush=True)
sys.stdin.readline()
db.execute("rollback")
"""


def test_a_users_write_lock_is_waited_out_and_blamed_on_its_process(bench: Bench) -> None:
    load(bench.store)
    command = [sys.executable, "-c", HOLD_WRITE_LOCK, str(bench.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == "held\n"
        appending = threading.Thread(target=bench.store.append, args=(1, rows(0, 1, 1), []))
        appending.start()
        assert bench.heard.wait(HUNG_S)
        assert appending.is_alive()
        user.communicate("go\n")
        appending.join(HUNG_S)
    assert f"pid {user.pid} (" in bench.blamed[0]
    assert bench.query("select count(*) from records") == [(1,)]


def test_a_wait_for_a_lock_ends_when_the_controller_stops(bench: Bench) -> None:
    load(bench.store)
    user = sqlite3.connect(bench.path, isolation_level=None)
    user.execute("begin immediate")
    bench.store.interrupt()
    with pytest.raises(OutcomeUnknown, match="locked"):
        bench.store.append(1, rows(0, 1, 1), [])
    user.close()


def test_a_users_long_read_does_not_stall_appends_nor_snapshots(bench: Bench) -> None:
    load(bench.store)
    bench.store.append(1, rows(0, 3, 1), [])
    user = sqlite3.connect(bench.path, isolation_level=None)
    user.execute("begin")
    assert user.execute("select count(*) from records").fetchone() == (3,)
    bench.store.append(1, rows(3, 2, 1), [])
    bench.store.snapshot(1, StoredSnapshot(5, 1, b"image"), 0, keep_from=4)
    assert user.execute("select count(*) from records").fetchone() == (3,)
    assert bench.query("select count(*) from records") == [(1,)]
    user.close()


def test_a_snapshot_truncates_the_log_and_replaces_the_one_before(bench: Bench) -> None:
    load(bench.store)
    bench.store.append(1, rows(0, 4, 1), [])
    bench.store.snapshot(1, StoredSnapshot(2, 1, b"first"), 0, keep_from=0)
    bench.store.snapshot(1, StoredSnapshot(4, 1, b"second"), 0, keep_from=2)
    bench.store.close()
    loaded = load(bench.open())
    assert loaded.snapshot == StoredSnapshot(4, 1, b"second")
    assert [row.offset for row in loaded.records] == [2, 3]


def test_a_report_replaces_the_one_before_with_its_last_part_and_follows_a_group_that_moved(bench: Bench) -> None:
    load(bench.store)

    def groups(reported_ms: int, *names: str, last: bool) -> ReportPart:
        rows = [
            {"group_id": name, "state": "Stable", "type": "classic", "members": 1, "reported_ms": reported_ms}
            for name in names
        ]
        return ReportPart("groups", rows, reported_ms, last)

    offset = {
        "group_id": "g", "topic": "t", "partition_id": 0, "committed_offset": 7, "log_end_offset": 10,
        "metadata": "", "reported_ms": 5,
    }  # fmt: skip
    seen = "select group_id, coordinator_id from groups order by group_id"
    bench.store.report(1, 0, groups(5, "a", "g", last=True))
    bench.store.report(1, 0, ReportPart("group_offsets", [offset], 5, last=True))
    assert bench.query("select group_id, lag from group_offsets") == [("g", 3)]
    bench.store.report(1, 1, groups(6, "g", last=True))
    assert bench.query(seen) == [("a", 0), ("g", 1)]
    bench.store.report(1, 0, groups(7, "b", last=False))
    assert bench.query(seen) == [("a", 0), ("b", 0), ("g", 1)]  # nothing goes before the rest has come
    bench.store.report(1, 0, groups(7, "c", last=True))
    bench.store.report(1, 0, ReportPart("group_offsets", [], 7, last=True))
    assert bench.query(seen) == [("b", 0), ("c", 0), ("g", 1)]
    assert bench.query("select * from group_offsets") == []


def test_a_row_that_a_report_tells_twice_is_stored_once_as_it_was_told_last(bench: Bench) -> None:
    load(bench.store)
    rows = [
        {"group_id": "g", "state": state, "type": "classic", "members": 1, "reported_ms": 5}
        for state in ("Empty", "Stable")
    ]
    bench.store.report(1, 0, ReportPart("groups", rows, 5, last=True))
    assert bench.query("select group_id, state from groups") == [("g", "Stable")]


def test_the_use_of_quotas_that_a_service_told_long_ago_goes_with_another_ones_report(bench: Bench) -> None:
    load(bench.store)

    def usage(reported_ms: int, client: str) -> ReportPart:
        row = {
            "entity": f"client-id={client}", "name": "producer_byte_rate", "value": 10.0, "usage": 9.0,
            "throttle_time_ms": 5.0, "throttled": True, "reported_ms": reported_ms,
        }  # fmt: skip
        return ReportPart("quota_usage", [row], reported_ms, last=True)

    seen = "select entity, quota_service_id from quota_usage order by entity"
    bench.store.report(1, 0, usage(10, "a"))
    bench.store.report(1, 1, usage(60_000, "b"))
    assert bench.query(seen) == [("client-id=a", 0), ("client-id=b", 1)]
    bench.store.report(1, 1, usage(130_000, "c"))
    assert bench.query(seen) == [("client-id=c", 1)]


def test_the_views_show_what_the_image_holds_and_forget_what_it_forgets(bench: Bench) -> None:
    load(bench.store)
    first: list[r.MetadataRecord] = [
        *broker(0, 1),
        *topic("events", 1, [0, 0]),
        r.ConfigRecord(2, "events", "retention.ms", "5"),
        r.ClientQuotaRecord((r.QuotaEntity("client-id", None),), "producer_byte_rate", 9.0),
        r.ShardOwnerRecord("events", 0, 3, 1),
    ]
    image = replay(MetadataImage(), first, len(first) - 1, 1)
    bench.store.append(1, rows(0, 1, 1), projection.changes(first, MetadataImage(), image, CONFIG))
    assert bench.query("select name, partition_count, replication_factor from topics") == [("events", 2, 1)]
    assert bench.query("select partition_id, leader, isr from partitions") == [(0, 0, "[0]"), (1, 0, "[0]")]
    assert bench.query("select broker_id, state from brokers") == [(0, "active")]
    assert bench.query("select resource_type, name, value from configs") == [("topic", "retention.ms", "5")]
    assert bench.query("select * from quotas") == [("client-id=<default>", "producer_byte_rate", 9.0)]
    assert bench.query("select * from shards") == [("events", 0, 3, 1)]
    second: list[r.MetadataRecord] = [
        r.RemoveTopicRecord(topic_id(1)),
        *topic("events", 2, [0]),
        r.ConfigRecord(2, "events", "retention.bytes", "6"),
        r.BrokerRegistrationChangeRecord(0, 1, fenced=1),
    ]
    bench.store.append(1, rows(1, 1, 1), projection.changes(second, image, after(image, *second), CONFIG))
    assert bench.query("select name, partition_count from topics") == [("events", 1)]
    assert len(bench.query("select * from partitions")) == 1
    assert bench.query("select name from configs") == [("retention.bytes",)]
    assert bench.query("select state from brokers") == [("fenced",)]
    assert bench.query("select * from shards") == []


def test_an_address_of_ipv6_is_in_brackets_and_a_path_is_not(bench: Bench) -> None:
    load(bench.store)
    places = (r.Endpoint("INTERNAL", "fd00::7", 9190), r.Endpoint("UNIX-b", "/run/a:b.sock", 0))
    records: list[r.MetadataRecord] = [
        dataclasses.replace(record, end_points=places) if isinstance(record, r.RegisterBrokerRecord) else record
        for record in broker(0, 1)
    ]
    image = replay(MetadataImage(), records, len(records) - 1, 1)
    bench.store.append(1, rows(0, 1, 1), projection.changes(records, MetadataImage(), image, CONFIG))
    ((told,),) = bench.query("select endpoints from brokers")
    assert json.loads(told) == {"INTERNAL": "[fd00::7]:9190", "UNIX-b": "/run/a:b.sock:0"}


def test_the_partitions_view_says_what_is_offline_under_replicated_and_under_min_isr(bench: Bench) -> None:
    load(bench.store)
    facts = (
        "select partition_id, elr, last_known_elr, min_isr, offline, under_replicated, under_min_isr from partitions"
    )
    first: list[r.MetadataRecord] = [
        r.TopicRecord("wide", topic_id(1)),
        r.PartitionRecord(0, topic_id(1), (0, 1, 2), (0, 1, 2), 0),
        r.PartitionRecord(1, topic_id(1), (0, 1, 2), (0,), 0, eligible_leader_replicas=(1,)),
        r.PartitionRecord(2, topic_id(1), (0, 1, 2), (), -1, last_known_elr=(2,)),
        r.PartitionRecord(3, topic_id(1), (0, 1, 2, 3), (0, 1, 2), 0, adding_replicas=(3,)),
        r.ConfigRecord(2, "wide", "min.insync.replicas", "2"),
    ]
    image = replay(MetadataImage(), first, len(first) - 1, 1)
    bench.store.append(1, rows(0, 1, 1), projection.changes(first, MetadataImage(), image, CONFIG))
    assert bench.query(facts) == [
        (0, "[]", "[]", 2, 0, 0, 0),
        (1, "[1]", "[]", 2, 0, 1, 1),
        (2, "[]", "[2]", 2, 1, 1, 1),
        (3, "[]", "[]", 2, 0, 0, 0),
    ]
    second: list[r.MetadataRecord] = [r.ConfigRecord(2, "wide", "min.insync.replicas", "1")]
    bench.store.append(1, rows(1, 1, 1), projection.changes(second, image, after(image, *second), CONFIG))
    assert [row[3:] for row in bench.query(facts)] == [(1, 0, 0, 0), (1, 0, 1, 0), (1, 1, 1, 1), (1, 0, 0, 0)]


def test_the_topics_view_follows_a_reassignment_that_changes_the_replication_factor(bench: Bench) -> None:
    load(bench.store)
    first = topic("events", 1, [0, 0])
    image = replay(MetadataImage(), first, len(first) - 1, 1)
    bench.store.append(1, rows(0, 1, 1), projection.changes(first, MetadataImage(), image, CONFIG))
    moved: list[r.MetadataRecord] = [r.PartitionChangeRecord(0, topic_id(1), replicas=(0, 1, 2), isr=(0,))]
    bench.store.append(1, rows(1, 1, 1), projection.changes(moved, image, after(image, *moved), CONFIG))
    assert bench.query("select name, partition_count, replication_factor from topics") == [("events", 2, 3)]


LOCKS = """1: POSIX  ADVISORY  READ 100 fd:01:77 123 123
2: POSIX  ADVISORY  WRITE 200 fd:01:77 120 120
3: POSIX  ADVISORY  WRITE 300 fd:01:78 120 120
3: -> POSIX  ADVISORY  WRITE 400 fd:01:77 120 120
4: FLOCK  ADVISORY  WRITE 200 fd:01:77 0 EOF
5: POSIX  ADVISORY  WRITE 500 fd:01:77 120 120
"""


def test_only_other_processes_write_locks_on_these_files_are_blamed() -> None:
    assert lock_holders.write_lock_holders(LOCKS, [(0xFD, 1, 77)], own_pid=500) == [200]


def test_nobody_is_blamed_where_proc_shows_nothing(tmp_path: Path) -> None:
    assert lock_holders.describe_holders(tmp_path / "none.db") == "a process that /proc/locks does not show"
