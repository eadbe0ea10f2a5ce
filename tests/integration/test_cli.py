"""The daily commands and the main job against a real cluster, as a person types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.coordinator.assignors.range import RangePartitionAssignor

from support.subscribing import subscribed
from support.waiting import HUNG_S, until
from tailrace.testing import Cluster

TAILRACE = (sys.executable, "-m", "tailrace.cli")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(
        data_dir=tmp_path_factory.mktemp("cluster"), settings={"offsets.topic.num.partitions": "4"}
    ) as started:
        yield started


def run(cluster: Cluster, *arguments: str, typed: str = "", status: int = 0) -> str:
    """What the command prints; it must end with `status`."""
    done = subprocess.run(
        [*TAILRACE, *arguments],
        input=typed,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**os.environ, "TAILRACE_BOOTSTRAP": cluster.bootstrap, "XDG_DATA_HOME": str(cluster.data_dir / "none")},
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


# A gateway hears of a change a moment after the controller has acknowledged it: what was changed is asked for again.


def test_topics_are_created_listed_described_altered_and_deleted(cluster: Cluster) -> None:
    run(cluster, "topic", "create", "orders", "--partitions", "2", "--config", "retention.ms=60000")
    until(lambda: "orders" in run(cluster, "topic", "list").splitlines(), "the topic")
    run(cluster, "topic", "alter", "orders", "--partitions", "3")

    def described() -> list[str]:
        return [line.split()[0] for line in run(cluster, "topic", "describe", "orders").splitlines()]

    until(lambda: described() == ["partition", "0", "1", "2"], "three partitions")
    run(cluster, "topic", "delete", "orders")
    until(lambda: "orders" not in run(cluster, "topic", "list").splitlines(), "the topic is gone")


def test_a_refusal_is_one_sentence_and_status_1(cluster: Cluster) -> None:
    said = run(cluster, "topic", "create", "far", "--replicas", "3", status=1)
    assert "Traceback" not in said
    assert said.startswith("far: INVALID_REPLICATION_FACTOR: ") and len(said.splitlines()) == 1


def test_lines_that_are_produced_are_consumed_and_the_group_has_no_lag(cluster: Cluster) -> None:
    run(cluster, "topic", "create", "letters", "--partitions", "1")
    assert "3 records" in run(cluster, "produce", "letters", "--key-separator", ":", typed="a:1\nb:2\nc:3\n")
    read = run(cluster, "consume", "letters", "--from-beginning", "--count", "3", "--group", "readers", "--key")
    assert read.splitlines() == ["a\t1", "b\t2", "c\t3"]
    assert "readers" in run(cluster, "group", "list")
    row = run(cluster, "group", "describe", "readers").splitlines()[2].split()
    assert row == ["letters", "0", "3", "3", "0", "-", "-", "-"]
    run(cluster, "group", "reset", "readers", "--to-earliest", "--execute")
    assert run(cluster, "group", "describe", "readers").splitlines()[2].split()[4] == "3"


def test_a_member_shares_the_partitions_with_one_of_another_library(cluster: Cluster) -> None:
    run(cluster, "topic", "create", "shared", "--partitions", "2")
    first = subprocess.Popen(
        [*TAILRACE, "consume", "shared", "--group", "both", "--from-beginning", "--count", "1"],
        stdout=subprocess.PIPE,
        env={**os.environ, "TAILRACE_BOOTSTRAP": cluster.bootstrap},
    )
    second = subscribed(
        "shared",
        group_id="both",
        bootstrap_servers=cluster.bootstrap,
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    try:
        until(lambda: second.poll(100) == {} and len(second.assignment()) == 1, "a partition of the second member")
        (partition,) = {0, 1} - {found.partition for found in second.assignment()}
        run(cluster, "produce", "shared", "-p", str(partition), typed="one\n")
        assert first.stdout is not None and first.stdout.readline() == b"one\n"
        assert first.wait(HUNG_S) == 0
        until(lambda: second.poll(100) == {} and len(second.assignment()) == 2, "the partition that the first left")
    finally:
        first.kill()
        first.communicate()
        second.close()


def test_records_are_chosen_and_shown_as_kcat_does(cluster: Cluster) -> None:
    run(cluster, "topic", "create", "parts", "--partitions", "2")
    run(cluster, "produce", "parts", "-p", "1", "-K", ":", "-Z", "-H", "src=cli", typed="a:1\nb:\nc:3\n")
    shown = "%t-%p@%o %k=%s(%S) %h\\n"
    read = run(cluster, "consume", "parts", "-o", "-2", "-p", "1", "--exit", "-f", shown)
    assert read.splitlines() == ["parts-1@1 b=(-1) src=cli", "parts-1@2 c=3(1) src=cli"]
    assert run(cluster, "consume", "parts", "-p", "1", "-o", "1", "-e", "-c", "1") == "null\n"
    assert run(cluster, "consume", "parts", "-o", "s@2001-01-01", "-o", "e@2002-01-01", "-e") == ""
    assert run(cluster, "consume", "parts", "-p", "1", "-o", "0", "-e", "--filter", "offset == 1") == "null\n"
    said = run(cluster, "consume", "parts", "-o", "3", "-e", status=1)
    assert said == "parts-0: offset 3 is not in the log, which has 0 to 0\n"


def test_records_before_a_place_are_deleted(cluster: Cluster) -> None:
    run(cluster, "topic", "create", "shortened", "--partitions", "2")
    run(cluster, "produce", "shortened", "-p", "1", typed="a\nb\nc\n")
    of_one = {"topic_name": "shortened", "partition_id": 1}
    shown = json.loads(run(cluster, "topic", "offsets", "shortened", "-o", "-1", "--json"))
    assert shown[1] == {"first_offset": 0, "end_offset": 3, "offsets": 3, "offset": 2} | of_one
    for word in ("--dry-run", "--yes"):
        done = run(cluster, "topic", "delete-records", "shortened", "-p", "1", "--before", "2", word, "--json")
        row = {"first_offset": 0, "new_first_offset": 2, "end_offset": 3} | of_one
        assert json.loads(done) == [row]
    assert json.loads(run(cluster, "topic", "offsets", "shortened", "--json"))[1]["first_offset"] == 2
    assert run(cluster, "consume", "shortened", "-o", "earliest", "-e") == "c\n"
    said = run(cluster, "topic", "delete-records", "shortened", "-p", "1", "--before", "9", status=1)
    assert said == "shortened-1: offset 9 is not in the log, which has 2 to 3\n"


def test_what_consume_prints_as_json_produce_takes(cluster: Cluster, tmp_path: Path) -> None:
    run(cluster, "topic", "create", "copied", "--partitions", "1")
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    run(cluster, "produce", "copied", str(tmp_path / "binary"), "--key", "k", "-H", "n=1")
    first = run(cluster, "consume", "copied", "-o", "earliest", "-e", "-J")
    (tmp_path / "lines").write_text(first)
    run(cluster, "produce", "copied", "-J", "-l", str(tmp_path / "lines"))
    both = run(cluster, "consume", "copied", "-o", "earliest", "-e", "-J").splitlines()
    assert both[1] == both[0].replace('"offset": 0', '"offset": 1')
    assert '"value": {"base64": "/wA="}' in both[0]
    said = run(cluster, "produce", "copied", "-J", typed='{"value": "x"}\nbad\n', status=1)
    assert said == "1 record written to copied\nrecord 2: not JSON\n"


def test_a_reader_leaves_out_what_was_aborted_if_it_is_told_to(cluster: Cluster) -> None:
    run(cluster, "topic", "create", "booked", "--partitions", "1")
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id="booking")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("booked", b"1").get(HUNG_S)
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send("booked", b"2").get(HUNG_S)
    producer.abort_transaction()
    producer.close()
    everything = ("consume", "booked", "-o", "earliest", "-e")
    assert run(cluster, *everything) == "1\n2\n"
    assert run(cluster, *everything, "--read-committed") == "1\n"


def test_configs_are_set_shown_and_unset(cluster: Cluster) -> None:
    run(cluster, "topic", "create", "tuned")
    run(cluster, "config", "set", "topic", "tuned", "retention.ms=1234567")
    until(lambda: "1234567" in run(cluster, "config", "show", "topic", "tuned"), "the topic's own retention")
    run(cluster, "config", "unset", "topic", "tuned", "retention.ms")
    until(lambda: "1234567" not in run(cluster, "config", "show", "topic", "tuned"), "the default")


def test_status_shows_every_process_or_says_that_nothing_runs(cluster: Cluster, tmp_path: Path) -> None:
    shown = run(cluster, "status", "--data", str(cluster.data_dir))
    for name in ("controller-0", "broker-0", "coordinator-0", "quota-0", "gateway-0", "up"):
        assert name in shown
    assert "Nothing runs" in run(cluster, "status", "--data", str(tmp_path), status=3)


def test_the_main_job_uses_the_cluster_that_runs_and_its_counts_match(cluster: Cluster) -> None:
    said = run(cluster, "demo", "--data", str(cluster.data_dir), "--lines", "3000")
    assert f"already runs on {cluster.data_dir} (pid {cluster.pid})" in said
    assert "Counts and checksums match." in said
    assert f"kcat -b {cluster.bootstrap}" in said
