"""Moving in and out: what a real Apache Kafka held is read from Tailrace by every client, and the other way round."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from support import kafka_peer
from support.clients import CLIENTS, Record, connect, transactions
from support.clients.base import EARLIEST
from support.java_tools import CONSUMER, JavaTools
from support.java_tools import missing as java_missing
from support.waiting import until
from tailrace.cli.daily import app
from tailrace.log.filesystem import checkpoints
from tailrace.testing import Cluster

PARTITIONS, COUNT = 3, 400
METADATA = "metadata"
CONFIGS = {"segment.bytes": "1048576", "retention.ms": "-1", "max.message.bytes": "2000000"}


def dirs_of(folder: Path) -> list[Path]:
    """The log.dirs of the Kafka in a folder; it keeps its metadata in a third directory."""
    return [folder / "data", folder / "more"]


def all_dirs(kafka: kafka_peer.KafkaPeer) -> list[Path]:
    return [*dirs_of(kafka.folder), kafka.folder / METADATA]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def committed_values(bootstrap: str, topic: str) -> list[bytes]:
    return [value for _, value in transactions.READERS["confluent"](bootstrap, topic, committed=True)]


def records(partition: int) -> list[Record]:
    return [
        Record(b"%d-%d " % (partition, n) + bytes(4000), b"k%d" % n, (("n", b"%d" % n),), partition)
        for n in range(COUNT)
    ]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka_peer.KafkaPeer]:
    """A stopped Kafka of two log dirs: records of every codec, transactions, committed offsets, a deleted topic."""
    if needed := java_missing():
        pytest.skip(needed)
    settings = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "2"}
    settings["group.initial.rebalance.delay.ms"] = "0"
    folder = tmp_path_factory.mktemp("moving") / "kafka"
    settings["log.dirs"] = ",".join(map(str, dirs_of(folder)))
    settings["metadata.log.dir"] = str(folder / METADATA)
    peer = kafka_peer.KafkaPeer(folder, settings)
    peer.start()
    try:
        client = connect("kafka_python", peer.bootstrap)
        try:
            client.create_topic("orders", PARTITIONS, configs=CONFIGS)
            client.create_topic("gone")
            for partition, codec in enumerate(("lz4", "zstd", None)):
                client.produce("orders", records(partition), compression=codec, idempotent=partition == 0)
            client.commit("readers", "orders", 123, "")
            client.delete_topic("gone")
            for topic in ("ledger", "hanging"):
                client.create_topic(topic)
            peer.committed = transactions.write_both_ways(peer.bootstrap, "ledger")
            transactions.leave_open(peer.bootstrap, "hanging")
        finally:
            client.close()
        peer.stop()
        yield peer
    finally:
        peer.stop()


@pytest.fixture(scope="module")
def imported(kafka: kafka_peer.KafkaPeer) -> Iterator[Cluster]:
    """A Tailrace on the imported directory."""
    target = kafka.folder.parent / "tailrace"
    done = run("import-kafka", *all_dirs(kafka), "--data", target)
    assert done.exit_code == 0, done.output
    assert "5 topics, 10 partitions" in done.output
    assert "Transactions were open in hanging-0 at offset 1." in done.output
    with Cluster(data_dir=target) as cluster:
        yield cluster


@pytest.mark.parametrize("name", CLIENTS)
def test_every_client_reads_what_was_in_kafka(imported: Cluster, name: str) -> None:
    client = connect(name, imported.bootstrap)
    try:
        assert {"orders"} <= client.list_topics() and "gone" not in client.list_topics()
        for partition in range(PARTITIONS):
            read = client.read("orders", EARLIEST, COUNT, partition)
            wanted = records(partition)
            assert [(r.offset, r.key, r.value, r.headers) for r in read[:COUNT]] == [
                (offset, r.key, r.value, r.headers) for offset, r in enumerate(wanted)
            ]
        committed = client.committed("readers", "orders")
        assert committed is not None and committed[0] == 123
        described = client.describe_config("topic", "orders")
        assert {key: described[key][0] for key in CONFIGS} == CONFIGS
    finally:
        client.close()


@pytest.mark.parametrize("name", transactions.READERS)
def test_a_reader_at_read_committed_gets_what_was_committed_and_nothing_else(
    kafka: kafka_peer.KafkaPeer, imported: Cluster, name: str
) -> None:
    read = transactions.READERS[name]
    assert len(kafka.committed) == transactions.COMMITTED
    assert read(imported.bootstrap, "ledger", committed=True) == kafka.committed
    everything = read(imported.bootstrap, "ledger", committed=False)
    assert len(everything) == 2 * transactions.COMMITTED and set(kafka.committed) < set(everything)
    assert read(imported.bootstrap, "hanging", committed=True) == [(0, b"plain")]
    assert len(read(imported.bootstrap, "hanging", committed=False)) == 3


def test_transactional_ids_come_along_and_who_takes_one_ends_what_it_had_open(
    kafka: kafka_peer.KafkaPeer, tmp_path: Path
) -> None:
    assert run("import-kafka", *all_dirs(kafka), "--data", tmp_path / "new").exit_code == 0
    with Cluster(data_dir=tmp_path / "new") as cluster:
        at = ("--bootstrap", cluster.bootstrap)

        def told() -> dict[str, dict[str, Any]]:
            listed = json.loads(run("transaction", "list", "--json", *at).output)
            return {one["transactional_id"]: one for one in listed}

        before = told()
        states = {name: one["state"] for name, one in before.items()}
        assert states == {"ledger-0": "COMPLETE_COMMIT", "ledger-1": "COMPLETE_ABORT", "hanging-open": "ONGOING"}
        successor = transactions.producer(cluster.bootstrap, "hanging-open")  # which waits for the abort
        successor.begin_transaction()
        successor.produce("hanging", b"after")
        successor.commit_transaction(transactions.TIMEOUT_S)
        until(lambda: told()["hanging-open"]["state"] == "COMPLETE_COMMIT", "the transaction is over")
        assert told()["hanging-open"]["producer_id"] == before["hanging-open"]["producer_id"]
        until(lambda: committed_values(cluster.bootstrap, "hanging") == [b"plain", b"after"], "the markers are written")


def test_kafkas_own_console_consumer_reads_it(imported: Cluster) -> None:
    tools = JavaTools()
    try:
        arguments = ["--bootstrap-server", imported.bootstrap, "--topic", "orders", "--partition", "1"]
        shown = tools.run(
            CONSUMER, *arguments, "--offset", "0", "--max-messages", "5", "--formatter-property", "print.key=true"
        )
    finally:
        tools.close()
    assert [line.split("\t")[0] for line in shown.out.splitlines()] == [f"k{n}" for n in range(5)]


def test_it_is_written_on_where_kafka_ended_and_kafkas_files_stay_as_they_are(
    kafka: kafka_peer.KafkaPeer, imported: Cluster
) -> None:
    (source,) = (path / "orders-2" for path in dirs_of(kafka.folder) if (path / "orders-2").exists())
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    client = connect("confluent", imported.bootstrap)
    try:
        assert client.produce("orders", [Record(b"new", partition=2)]) == [(2, COUNT)]
    finally:
        client.close()
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before
    closed = sorted(source.glob("*.log"))[0]
    twin = imported.data_dir / "broker-0" / "orders-2" / closed.name
    assert os.stat(closed).st_ino == os.stat(twin).st_ino
    verified = run("verify-log", source.parent)
    assert verified.exit_code == 0, verified.output


def test_a_kafka_that_runs_or_crashed_is_refused_without_a_trace(kafka: kafka_peer.KafkaPeer, tmp_path: Path) -> None:
    data = kafka.folder / "data"
    marker = data / checkpoints.CLEAN_SHUTDOWN
    content = marker.read_bytes()
    marker.unlink()
    try:
        refused = run("import-kafka", *all_dirs(kafka), "--data", tmp_path / "new")
        assert refused.exit_code == 1 and "was not shut down cleanly" in refused.output
        assert list(tmp_path.iterdir()) == []
        done = run("import-kafka", *all_dirs(kafka), "--data", tmp_path / "new", "--unclean")
        assert done.exit_code == 0, done.output
    finally:
        marker.write_bytes(content)
    with Cluster(data_dir=tmp_path / "new") as cluster:
        client = connect("kafka_python", cluster.bootstrap)
        try:
            assert len(client.read("orders", EARLIEST, COUNT, 1)) == COUNT
        finally:
            client.close()


def test_a_log_dir_that_was_not_named_is_missed_without_a_trace(kafka: kafka_peer.KafkaPeer, tmp_path: Path) -> None:
    first, _ = dirs_of(kafka.folder)
    refused = run("import-kafka", first, kafka.folder / METADATA, "--data", tmp_path / "new")
    assert refused.exit_code == 1 and "is in none of the directories: name every entry of log.dirs" in refused.output
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_java_holds_is_seen(kafka: kafka_peer.KafkaPeer, tmp_path: Path) -> None:
    """Apache Kafka locks by fcntl(2); another process stands for it."""
    code = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    lock = kafka.folder / "data" / checkpoints.LOCK
    command = [sys.executable, "-c", code, str(lock)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        refused = run("import-kafka", *all_dirs(kafka), "--data", tmp_path / "new")
    finally:
        holder.send_signal(signal.SIGTERM)
        holder.communicate()
    assert refused.exit_code == 1 and "A broker runs on" in refused.output
    assert list(tmp_path.iterdir()) == []


def test_kafka_starts_on_what_was_exported_and_serves_it(tmp_path: Path) -> None:
    if needed := java_missing():
        pytest.skip(needed)
    with Cluster(data_dir=tmp_path / "tailrace", settings={"offsets.topic.num.partitions": "3"}) as cluster:
        client = connect("kafka_python", cluster.bootstrap)
        try:
            client.create_topic("orders", PARTITIONS, configs=CONFIGS)
            client.create_topic("unused", 2)
            for partition, codec in enumerate(("snappy", None, "gzip")):
                client.produce("orders", records(partition), compression=codec)
            client.commit("readers", "orders", 321, "")
            client.create_topic("hanging")
            transactions.leave_open(cluster.bootstrap, "hanging")
        finally:
            client.close()
    assert not list((tmp_path / "tailrace" / "broker-0").glob("unused-*"))
    done = run("export-kafka", tmp_path / "tailrace", tmp_path / "out")
    assert done.exit_code == 0, done.output
    verified = run("verify-log", tmp_path / "out" / "node-0")
    assert verified.exit_code == 0, verified.output
    settings = {"log.dirs": str(tmp_path / "out" / "node-0"), "group.initial.rebalance.delay.ms": "0"}
    peer = kafka_peer.KafkaPeer(tmp_path / "kafka", settings, formatted=True)
    try:
        peer.start()
        for name in CLIENTS:
            client = connect(name, peer.bootstrap)
            try:
                for partition in range(PARTITIONS):
                    read = client.read("orders", EARLIEST, COUNT, partition)
                    assert [(r.key, r.value, r.headers) for r in read] == [
                        (r.key, r.value, r.headers) for r in records(partition)
                    ]
                committed = client.committed("readers", "orders")
                assert committed is not None and committed[0] == 321
                client.produce("unused", [Record(name.encode(), partition=1)])
                described = client.describe_config("topic", "orders")
                assert {key: described[key][0] for key in CONFIGS} == CONFIGS
            finally:
                client.close()
        assert committed_values(peer.bootstrap, "hanging") == [b"plain"]
        successor = transactions.producer(peer.bootstrap, "hanging-open")
        successor.begin_transaction()
        successor.produce("hanging", b"after")
        successor.commit_transaction(transactions.TIMEOUT_S)
        until(lambda: committed_values(peer.bootstrap, "hanging") == [b"plain", b"after"], "the markers are written")
        assert "ERROR" not in (tmp_path / "kafka" / "kafka.log").read_text()
    finally:
        peer.stop()
