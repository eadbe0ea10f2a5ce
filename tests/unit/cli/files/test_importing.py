"""`tailrace import-kafka` on directories made here: what is taken, what is shared, what is refused."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from typer.testing import CliRunner, Result

from support.access import random_acls
from support.kafka_directory import (
    ABORT,
    BEGIN,
    CLUSTER_ID,
    END,
    TOPIC_ID,
    kafka_directory,
    topic_records,
    write_metadata,
)
from support.logs import NOW, records_of
from support.transactions import data_batch, marker_batch, write
from tailrace.cli.daily import app
from tailrace.inspect.files import OFFSET_CHECKPOINTS
from tailrace.log.config import LogConfig
from tailrace.log.directory.log_dir import LogDir, LogDirRefused
from tailrace.log.directory.start import LastShutdown
from tailrace.log.filesystem.checkpoints import parse_properties
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.metadata import codec
from tailrace.metadata.codec import MalformedRecord
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.kraft import Replayed
from tailrace.metadata.records import (
    AccessControlEntryRecord,
    ConfigRecord,
    PartitionRecord,
    RemoveAccessControlEntryRecord,
    UserScramCredentialRecord,
)
from tailrace.net.metadata.batches import Snapshot, decode_snapshot
from tailrace.records.markers import COMMIT

SCRAM = UserScramCredentialRecord("alice", 1, b"salt", b"stored", b"server", 4096)
TOKEN = b"\x01\x0a\x00\x00"
UNKNOWN = b"\x01\x63\x00\x00"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def image_of(target: Path) -> MetadataImage:
    with sqlite3.connect(target / "metadata.db") as database:
        (row,) = database.execute("SELECT * FROM snapshots").fetchall()
        names = [column[1] for column in database.execute("PRAGMA table_info(snapshots)")]
    database.close()
    stored = dict(zip(names, row, strict=True))
    return decode_snapshot(Snapshot(stored["end_offset"], stored["epoch"], stored["payload"]))


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    return kafka_directory(tmp_path / "kafka", 7, (7,))


def test_topics_configs_quotas_and_producer_ids_are_taken(kafka: Path, tmp_path: Path) -> None:
    done = run("import-kafka", kafka, "--data", tmp_path / "new")
    assert done.exit_code == 0, done.output
    assert "Left out: brand.new.config of topic orders" in done.output
    assert "Brokers count from 0 here: 7 is now 0." in done.output
    assert "Kept, but without TLS clients are the user ANONYMOUS: 1 quota for users by name." in done.output
    assert "quota.scope" not in done.output  # one broker is the whole cluster
    image = image_of(tmp_path / "new")
    assert image.topics["orders"].topic_id == TOPIC_ID
    (partition,) = image.topics["orders"].partitions
    assert (partition.replicas, partition.leader, partition.eligible_leader_replicas) == ((0,), -1, (0,))
    assert partition.leader_epoch == 4
    assert image.config(2, "orders") == {"retention.ms": "-1"}
    assert image.quotas == {(("user", "alice"),): {"producer_byte_rate": 1024.0}}
    assert image.next_producer_id == 3000
    assert (image.brokers[0].broker_epoch, image.brokers[0].fenced) == (5, True)
    assert image.epoch == 3 and image.offset >= len(topic_records((7,))) - 1


def test_records_are_there_and_only_closed_segments_are_shared(kafka: Path, tmp_path: Path) -> None:
    before = contents(kafka)
    assert run("import-kafka", kafka, "--data", tmp_path / "new").exit_code == 0
    own = tmp_path / "new" / "broker-0"
    segments = sorted((own / "orders-0").glob("*.log"))
    twins = [kafka / "orders-0" / path.name for path in segments]
    shared = [path.stat().st_ino == twin.stat().st_ino for path, twin in zip(segments, twins, strict=True)]
    assert shared == [True] * (len(segments) - 1) + [False] and len(segments) > 2
    assert parse_properties((own / "meta.properties").read_bytes())["node.id"] == "0"
    logs = LogDir.open(RealFilesystem(), str(own), node_id=0, cluster_id="AAAAAAAAAAAAAAAAAAAAAQ", now_ms=NOW)
    log = logs.create("orders", 0, TOPIC_ID, LogConfig())
    assert logs.last_shutdown == LastShutdown(clean=True, broker_epoch=5)
    assert [record.value for record in records_of(log)] == [b"value-%d" % number for number in range(30)]
    logs.close()
    assert contents(kafka) == before
    assert run("verify-log", tmp_path / "new").exit_code == 0


def test_a_copy_shares_nothing_and_a_move_leaves_nothing(kafka: Path, tmp_path: Path) -> None:
    assert run("import-kafka", kafka, "--data", tmp_path / "copy", "--how", "copy").exit_code == 0
    links = {path.stat().st_nlink for path in (tmp_path / "copy").rglob("*.log")}
    assert links == {1}
    assert run("import-kafka", kafka, "--data", tmp_path / "moved", "--how", "move").exit_code == 0
    assert not (kafka / "orders-0").exists()
    assert contents(tmp_path / "moved" / "broker-0") == contents(tmp_path / "copy" / "broker-0")


def test_what_another_file_system_lets_nobody_link_is_copied_and_said_to_be(
    kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run("import-kafka", kafka, "--data", tmp_path / "linked").output

    def no_link(source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", no_link)
    done = run("import-kafka", kafka, "--data", tmp_path / "copied")
    linked = int(re.findall(r"\((\d+) of them linked\)", before)[0])
    assert linked > 0 and "could not be linked" not in before
    assert "(0 of them linked)" in done.output
    assert f"{linked} bytes could not be linked, so they were copied: is it another file system?" in done.output


def test_nobody_starts_on_what_was_moved_away_and_the_same_move_again_says_so(kafka: Path, tmp_path: Path) -> None:
    assert run("import-kafka", kafka, "--data", tmp_path / "new", "--how", "move").exit_code == 0
    assert not (kafka / "meta.properties").exists()  # Kafka asks for a formatted directory then
    with pytest.raises(LogDirRefused, match=f"was moved: {tmp_path / 'new'} has it now"):
        LogDir.open(RealFilesystem(), str(kafka), node_id=7, cluster_id=CLUSTER_ID, now_ms=NOW)
    refused = run("import-kafka", kafka, "--data", tmp_path / "other")
    assert refused.exit_code == 1 and f"was moved to {tmp_path / 'new'}: use that." in refused.output
    checked = run("verify-log", kafka)  # not the checkpoints, which name partitions that are gone
    assert checked.exit_code == 1 and f"{kafka}: was moved to {tmp_path / 'new'}; " in checked.output
    assert "1 finding." in checked.output
    again = run("import-kafka", kafka, "--data", tmp_path / "new", "--how", "move")
    assert again.exit_code == 0 and "had been moved" in again.output


def test_a_mark_of_a_move_that_was_not_decided_gives_nothing_up(kafka: Path, tmp_path: Path) -> None:
    properties = (kafka / "meta.properties").read_bytes().hex()
    (kafka / ".moved-to").write_text(f"some-id\n{tmp_path / 'new'}\n{properties}\norders-0\n")
    before = contents(kafka)
    (tmp_path / "new").mkdir()  # by somebody else, when the import had been killed
    refused = run("import-kafka", kafka, "--data", tmp_path / "new", "--how", "move")
    assert refused.exit_code == 1 and "exists already" in refused.output
    assert contents(kafka) == before


def test_what_was_begun_anew_where_something_was_moved_away_is_not_given_up(kafka: Path, tmp_path: Path) -> None:
    move = ("import-kafka", kafka, "--data", tmp_path / "new", "--how", "move")
    assert run(*move).exit_code == 0
    other = kafka_directory(tmp_path / "other", 8, (8,))
    (other / ".moved-to").write_bytes((kafka / ".moved-to").read_bytes())  # Kafka was formatted where the mark is
    shutil.rmtree(kafka)
    other.rename(kafka)
    before = contents(kafka)
    refused = run(*move)
    assert refused.exit_code == 1 and "exists already" in refused.output
    assert contents(kafka) == before


def test_two_imports_into_one_place_do_not_meet(kafka: Path, tmp_path: Path) -> None:
    working = tmp_path / ".new.importing"
    working.mkdir()
    folder = os.open(working, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        refused = run("import-kafka", kafka, "--data", tmp_path / "new")
        assert refused.exit_code == 1 and "going on already" in refused.output
    finally:
        os.close(folder)
    assert run("import-kafka", kafka, "--data", tmp_path / "new").exit_code == 0


def test_several_directories_are_brokers_of_one_cluster(tmp_path: Path) -> None:
    nodes = (3, 1, 2)
    epochs = {node: node for node in nodes}
    directories = [kafka_directory(tmp_path / f"k{n}", n, nodes, epoch=n, epochs=epochs) for n in sorted(nodes)]
    done = run("import-kafka", *directories, "--data", tmp_path / "new")
    assert done.exit_code == 0, done.output
    assert "--brokers 3" in done.output
    assert "1 quota; `--set quota.scope=broker` keeps what it was." in done.output
    image = image_of(tmp_path / "new")
    assert image.topics["orders"].partitions[0].replicas == (2, 0, 1)
    assert {number: broker.broker_epoch for number, broker in image.brokers.items()} == {0: 1, 1: 2, 2: 3}
    refused = run("import-kafka", *directories[:2], "--data", tmp_path / "less")
    assert refused.exit_code == 1 and "Broker 3 holds replicas too" in refused.output


def two_brokers(path: Path) -> list[Path]:
    """Two brokers with two log directories each: `orders-0` in the first ones, `orders-1` in the others."""
    made = []
    for node in (1, 2):
        for index in (0, 1):
            own = kafka_directory(path / f"k{node}-{index}", node, (1, 2), partition=index, partitions=2)
            made.append(own)
    return made


def test_a_log_directory_of_a_replica_in_sync_that_is_not_named_is_missed(tmp_path: Path) -> None:
    """Its broker would lead what lies there with an empty log, and the others would cut theirs to follow it."""
    directories = two_brokers(tmp_path)
    for left_out in range(4):
        named = [path for number, path in enumerate(directories) if number != left_out]
        refused = run("import-kafka", *named, "--data", tmp_path / "new")
        why = f"Broker {left_out // 2 + 1}'s replica of orders-{left_out % 2} is in none of the directories: name every"
        assert refused.exit_code == 1 and why in refused.output, refused.output
    done = run("import-kafka", *directories, "--data", tmp_path / "new")
    assert done.exit_code == 0 and "comes without" not in done.output


def test_a_replica_that_is_not_in_sync_or_of_which_nothing_was_written_need_not_be_there(tmp_path: Path) -> None:
    first, second, third, fourth = two_brokers(tmp_path)
    records = topic_records((1, 2), partitions=2)
    shrunk = [replace(record, isr=(1,)) if isinstance(record, PartitionRecord) else record for record in records]
    for own in (first, second, third):
        write_metadata(own, map(codec.encode, shrunk))
    done = run("import-kafka", first, second, third, "--data", tmp_path / "failed")
    assert done.exit_code == 0 and "Broker 2 comes without 1 replica (orders-1) and will copy" in done.output
    for own in (first, second, third):
        write_metadata(own, map(codec.encode, records))
    shutil.rmtree(fourth)
    shutil.rmtree(second / "orders-1")
    (second / "orders-1").mkdir()
    (second / "orders-1" / f"{0:020d}.log").touch()
    done = run("import-kafka", first, second, third, "--data", tmp_path / "new")
    assert done.exit_code == 0, done.output


def test_an_older_backup_of_a_broker_is_out_of_sync_as_when_kafka_starts_on_it(tmp_path: Path) -> None:
    """Kafka compares the marker's broker epoch with the one that its controller knows (KIP-966)."""
    directories = [kafka_directory(tmp_path / f"k{n}", n, (1, 2), epoch=n, epochs={1: 1, 2: 9}) for n in (1, 2)]
    done = run("import-kafka", *directories, "--data", tmp_path / "new")
    assert done.exit_code == 0, done.output
    assert (
        f"Broker 2 was not closed at the end of its last life, broker epoch 9 ({directories[1]}: 2); an older backup? "
        "Its replicas will copy what the others have." in done.output
    )
    assert "Broker 1 was not" not in done.output and "Nobody else" not in done.output
    assert (tmp_path / "new" / "broker-0" / ".kafka_cleanshutdown").exists()
    assert not (tmp_path / "new" / "broker-1" / ".kafka_cleanshutdown").exists()  # so it registers as if it had crashed
    assert run("import-kafka", *directories, "--data", tmp_path / "more", "--unclean").exit_code == 0


def test_one_older_log_directory_makes_all_of_its_broker_out_of_sync(tmp_path: Path) -> None:
    epochs = {1: 9, 2: 9}
    directories = [
        kafka_directory(tmp_path / f"k{n}-{p}", n, (1, 2), epoch=e, partition=p, partitions=2, epochs=epochs)
        for n, p, e in ((1, 0, 9), (1, 1, 3), (2, 0, 9), (2, 1, 9))
    ]
    done = run("import-kafka", *directories, "--data", tmp_path / "new")
    assert done.exit_code == 0, done.output
    assert f"broker epoch 9 ({directories[0]}: 9, {directories[1]}: 3)" in done.output
    assert not (tmp_path / "new" / "broker-0" / ".kafka_cleanshutdown").exists()


def test_an_older_backup_that_nobody_else_was_in_sync_with_is_named(tmp_path: Path) -> None:
    directory = kafka_directory(tmp_path / "k1", 1, (1,), epoch=3, epochs={1: 4})
    done = run("import-kafka", directory, "--data", tmp_path / "new")
    assert done.exit_code == 0, done.output
    assert "Nobody else was in sync in 1 partition (orders-0): what was written after that is lost" in done.output


def test_a_directory_with_nothing_but_the_metadata_says_nothing_of_how_its_broker_ended(
    kafka: Path, tmp_path: Path
) -> None:
    metadata = tmp_path / "metadata"  # metadata.log.dir outside log.dirs: Kafka puts no marker there
    metadata.mkdir()
    shutil.copy(kafka / "meta.properties", metadata)
    (kafka / "__cluster_metadata-0").rename(metadata / "__cluster_metadata-0")
    assert run("import-kafka", kafka, metadata, "--data", tmp_path / "new").exit_code == 0
    assert (tmp_path / "new" / "broker-0" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_registration_tells_the_broker_epoch(version: int) -> None:
    migrating = b"\x00" if version >= 2 else b""
    start = b"\x01\x00%c" % version
    registration = start + b"\x00\x00\x00\x07" + migrating + bytes(16) + b"\x00\x00\x00\x00\x00\x00\x01\x02" + b"\x01"
    replayed = Replayed()
    replayed.apply([registration], 0, 1)
    assert replayed.broker_epochs == {7: 258}
    with pytest.raises(MalformedRecord):
        replayed.apply([registration[:20]], 1, 1)
    replayed.apply([b"\x01\x01\x00" + b"\x00\x00\x00\x07" + b"\x00\x00\x00\x00\x00\x00\x01\x02" + b"\x00"], 1, 1)
    assert replayed.broker_epochs == {}


def test_a_folder_of_a_broker_that_is_no_replica_of_it_stays_where_it_is(tmp_path: Path) -> None:
    """As a reassignment leaves it with a broker that is away."""
    directories = [kafka_directory(tmp_path / f"k{node}", node, (1, 2)) for node in (1, 2, 3)]
    second = kafka_directory(tmp_path / "k2-b", 2, (1, 2), partition=1)
    records = [*topic_records((1, 2)), PartitionRecord(1, TOPIC_ID, (1,), (1,), 1)]
    kafka_directory(tmp_path / "k1-b", 1, (1, 2), partition=1)
    for own in (*directories, second, tmp_path / "k1-b"):
        write_metadata(own, map(codec.encode, records))
    done = run("import-kafka", *directories, second, tmp_path / "k1-b", "--data", tmp_path / "new")
    assert done.exit_code == 0 and "--brokers 2" in done.output, done.output
    taken = sorted(str(path.parent.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob(f"{0:020d}.log"))
    assert taken == ["broker-0/orders-0", "broker-0/orders-1", "broker-1/orders-0"]


def test_a_directory_that_is_named_twice_is_refused_with_a_sentence(kafka: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(kafka)
    copy = tmp_path / "copy"
    shutil.copytree(kafka, copy)
    for other, why in ((kafka, "is named twice: name"), (tmp_path / "link", "and as"), (copy, "one is a copy")):
        before = contents(kafka)
        refused = run("import-kafka", kafka, other, "--data", tmp_path / "new")
        assert refused.exit_code == 1 and why in refused.output, refused.output
        assert contents(kafka) == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "kafka", "link"]


def test_acls_come_along_and_those_that_were_deleted_do_not() -> None:
    acls = [random_acls.acl(Random(seed)) for seed in (1, 2)]
    created = [AccessControlEntryRecord.of(UUID(int=number), acl) for number, acl in enumerate(acls)]
    replayed = Replayed()
    replayed.apply([codec.encode(record) for record in created], 1, 1)
    replayed.apply([codec.encode(RemoveAccessControlEntryRecord(UUID(int=0)))], 2, 1)
    assert set(replayed.image.acls) == {acls[1]} and not replayed.left_out


def test_records_of_transactions_count_when_they_end_and_what_has_no_place_is_told(kafka: Path, tmp_path: Path) -> None:
    values = [codec.encode(record) for record in topic_records((7,))]
    other = codec.encode(topic_records((7,))[1])
    write_metadata(kafka, [BEGIN, *values, END, codec.encode(SCRAM), TOKEN, BEGIN, other[:-3] + b"99\x00", ABORT])
    done = run("import-kafka", kafka, "--data", tmp_path / "new")
    assert done.exit_code == 0, done.output
    assert "Left out: 1 delegation token" in done.output
    assert image_of(tmp_path / "new").scram == {"alice": {1: SCRAM}}
    assert image_of(tmp_path / "new").config(2, "orders") == {"retention.ms": "-1"}


def test_a_crashed_kafka_is_imported_as_recovery_finds_it(kafka: Path, tmp_path: Path) -> None:
    (kafka / ".kafka_cleanshutdown").unlink()
    for name in OFFSET_CHECKPOINTS:
        (kafka / name).write_bytes(b"")  # as Kafka makes them, before its first checkpoint
    newest = sorted((kafka / "orders-0").glob("*.log"))[-1]
    newest.with_suffix(".index").write_bytes(bytes(100_000))
    newest.write_bytes(newest.read_bytes()[:-1])
    before = contents(kafka)
    done = run("import-kafka", kafka, "--data", tmp_path / "new", "--unclean")
    assert done.exit_code == 0, done.output
    own = tmp_path / "new" / "broker-0"
    assert not (own / "orders-0" / newest.with_suffix(".index").name).exists()
    assert image_of(tmp_path / "new").brokers[0].broker_epoch == 0
    logs = LogDir.open(RealFilesystem(), str(own), node_id=0, cluster_id="AAAAAAAAAAAAAAAAAAAAAQ", now_ms=NOW)
    assert not logs.last_shutdown.clean
    log = logs.create("orders", 0, TOPIC_ID, LogConfig())
    assert [record.value for record in records_of(log)] == [b"value-%d" % number for number in range(29)]
    logs.close(broker_epoch=6)
    assert contents(kafka) == before
    assert run("verify-log", own).exit_code == 0


def _unclean(kafka: Path) -> None:
    (kafka / ".kafka_cleanshutdown").unlink()


def _unknown_record(kafka: Path) -> None:
    write_metadata(kafka, [UNKNOWN])


def _zookeeper(kafka: Path) -> None:
    (kafka / "meta.properties").write_text("version=0\nbroker.id=0\ncluster.id=x\n")


def _without_metadata(kafka: Path) -> None:
    (kafka / "__cluster_metadata-0" / "00000000000000000000.log").unlink()
    (kafka / "__cluster_metadata-0").rmdir()


def _damaged_metadata(kafka: Path) -> None:
    path = kafka / "__cluster_metadata-0" / "00000000000000000000.log"
    path.write_bytes(bytes(200))


def _garbage_properties(kafka: Path) -> None:
    (kafka / "meta.properties").write_text("version=1\nnode.id=seven\ncluster.id=x\n")


def _old_records(kafka: Path) -> None:
    path = sorted((kafka / "orders-0").glob("*.log"))[0]
    data = bytearray(path.read_bytes())
    data[16] = 1
    path.write_bytes(data)


def _lost_partition(kafka: Path) -> None:
    (kafka / "orders-0").rename(kafka.parent / "orders-0")


def _tiered(kafka: Path) -> None:
    records = [codec.encode(record) for record in topic_records((7,))]
    value = codec.encode(topic_records((7,))[1]).replace(
        b"\x0dretention.ms\x03-1", b"\x16remote.storage.enable\x05true"
    )
    write_metadata(kafka, [*records, value])


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_unclean, "was not shut down cleanly"),
        (_unknown_record, "api key 99, version 0 is not known"),
        (_zookeeper, "only KRaft clusters (version 1) can be imported"),
        (_garbage_properties, "meta.properties cannot be read: invalid literal"),
        (_without_metadata, "None of the directories has the cluster's metadata"),
        (_damaged_metadata, "cannot be read"),
        (_old_records, "holds records of magic 1"),
        (_lost_partition, "orders-0 is in none of the directories"),
        (_tiered, "is in tiered storage"),
    ],
)
def test_what_cannot_be_imported_is_refused_in_a_sentence_without_a_trace(
    kafka: Path, tmp_path: Path, harm: Callable[[Path], None], said: str
) -> None:
    harm(kafka)
    before = contents(kafka)
    (tmp_path / "place").mkdir()
    done = run("import-kafka", kafka, "--data", tmp_path / "place" / "new")
    assert done.exit_code == 1
    assert said in done.output and len(done.output.strip().splitlines()) == 1
    assert list((tmp_path / "place").iterdir()) == [] and contents(kafka) == before


def test_a_file_where_a_directory_is_due_and_the_other_way_round_are_named(kafka: Path, tmp_path: Path) -> None:
    done = run("import-kafka", kafka / "meta.properties", "--data", tmp_path / "target")
    assert done.exit_code == 1 and done.output.endswith("it has no meta.properties.\n")
    log = kafka / "__cluster_metadata-0" / f"{0:020d}.log"
    log.unlink()
    log.mkdir()
    done = run("import-kafka", kafka, "--data", tmp_path / "target")
    assert done.exit_code == 1 and f"{log}: {os.strerror(errno.EISDIR)}. Run the same command again" in done.output
    assert "[Errno" not in done.output


def test_a_directory_in_use_and_one_that_exists_are_refused(kafka: Path, tmp_path: Path) -> None:
    lock = RealFilesystem().lock(str(kafka / ".lock"))
    assert "A broker runs on" in run("import-kafka", kafka, "--data", tmp_path / "new").output
    del lock
    assert "exists already" in run("import-kafka", kafka, "--data", tmp_path).output


def test_nothing_is_made_inside_the_directories_that_are_taken(kafka: Path, tmp_path: Path) -> None:
    """Kafka takes no folder there that is no partition's."""
    before = contents(kafka)
    (tmp_path / "link").symlink_to(kafka)
    for how in ("link", "move"):
        for place in (kafka / "new", kafka / "orders-0" / "new", tmp_path / "link" / "new"):
            refused = run("import-kafka", kafka, "--data", place, "--how", how)
            assert refused.exit_code == 1 and f"{place} lies in {kafka}" in refused.output, refused.output
    assert contents(kafka) == before
    assert run("import-kafka", kafka, "--data", tmp_path / "kafka-too").exit_code == 0


def test_kafkas_default_of_min_insync_replicas_is_told_of_where_up_has_a_higher_one(tmp_path: Path) -> None:
    for nodes, told in (((1, 2, 3), True), ((1, 2), False)):
        place = tmp_path / str(len(nodes))
        directories = [kafka_directory(place / f"k{node}", node, nodes) for node in nodes]
        records = [*topic_records(nodes), ConfigRecord(4, "", "min.insync.replicas", "1")]
        for own in directories:
            write_metadata(own, map(codec.encode, records))
        done = run("import-kafka", *directories, "--data", place / "new")
        assert done.exit_code == 0 and ("--delete-config min.insync.replicas" in done.output) is told, done.output


def test_open_transactions_are_told_of(kafka: Path, tmp_path: Path) -> None:
    logs = LogDir.open(RealFilesystem(), str(kafka), node_id=7, cluster_id=CLUSTER_ID, now_ms=NOW)
    log = logs.create("orders", 0, TOPIC_ID, LogConfig())
    write(log, data_batch(3), data_batch(4), marker_batch(3, COMMIT))
    logs.close(broker_epoch=5)
    done = run("import-kafka", kafka, "--data", tmp_path / "new")
    assert done.exit_code == 0, done.output
    assert "Transactions were open in orders-0 at offset 31." in done.output


def test_ended_transactions_are_not_worth_a_word(kafka: Path, tmp_path: Path) -> None:
    logs = LogDir.open(RealFilesystem(), str(kafka), node_id=7, cluster_id=CLUSTER_ID, now_ms=NOW)
    log = logs.create("orders", 0, TOPIC_ID, LogConfig())
    write(log, data_batch(3), marker_batch(3, COMMIT))
    logs.close(broker_epoch=5)
    (snapshot,) = (kafka / "orders-0").glob("*32.snapshot")
    snapshot.unlink()  # as after a crash: the batches say it
    done = run("import-kafka", kafka, "--data", tmp_path / "new")
    assert done.exit_code == 0, done.output
    assert "ransactions were open" not in done.output


def test_a_place_that_an_sqlite_url_cannot_name_is_a_usage_error(tmp_path: Path) -> None:
    done = run("import-kafka", tmp_path, "--data", tmp_path / "new?")
    assert done.exit_code == 2 and "question mark" in done.output
    assert not list(tmp_path.iterdir())
