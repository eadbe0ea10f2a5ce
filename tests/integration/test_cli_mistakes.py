"""Mistakes typed at a live cluster: one sentence and a status, never a traceback or a word of Python."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from kafka import KafkaProducer
from typer.testing import CliRunner, Result

from support.subscribing import subscribed
from support.typed_commands import ASKING, MORE, Argument, Kind, right, wrong
from support.waiting import HUNG_S
from tailrace.cli.daily import app
from tailrace.testing import Cluster

PYTHON = re.compile(r"Traceback|\b[A-Z]\w+(Error|Exception)\b|\w+(Request|Response)\(|Errno|errno")
LINES_MAX = 8  # usage errors have three, and a plan's refusals a line for each partition
TAILRACE = (sys.executable, "-m", "tailrace.cli")
CASES = [*ASKING.items(), *MORE]
SETTINGS = {"offsets.topic.num.partitions": "2", "auto.create.topics.enable": "false"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("mistaken")
    with Cluster(data_dir=folder, settings=SETTINGS) as started:
        for words in (["topic", "create", "orders", "-p", "2"], ["produce", "orders"]):
            assert typed(started, words, "one\n").exit_code == 0
        read = typed(started, ["consume", "orders", "-g", "readers", "--from-beginning", "-n", "1"])
        assert read.exit_code == 0, read.output
        yield started


def typed(cluster: Cluster, words: list[str], lines: str = "") -> Result:
    return CliRunner().invoke(app, words, input=lines, env={"TAILRACE_BOOTSTRAP": cluster.bootstrap})


@pytest.fixture(scope="module")
def files(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the words {…} of the table stand for."""
    folder = tmp_path_factory.mktemp("plans")

    def plan(name: str, topic: str, partition: object) -> str:
        rows = [{"topic": topic, "partition": partition, "replicas": [0]}]
        (folder / name).write_text(json.dumps({"version": 1, "partitions": rows}))
        return str(folder / name)

    (folder / "no-plan").write_text('{"partitions": 7}')
    (folder / "binary").write_bytes(b"\xff\xfe\x00")
    return {
        "plan": plan("plan", "orders", 0),
        "unknown": plan("unknown", "nope", 0),
        "huge": plan("huge", "orders", 1 << 40),
        "no_plan": str(folder / "no-plan"),
        "binary": str(folder / "binary"),
        "folder": str(folder),
        "log_dir": str(cluster.data_dir / "broker-0"),
    }


@pytest.mark.parametrize(("path", "arguments"), CASES)
def test_every_mistake_is_refused_in_words(
    path: str, arguments: tuple[Argument, ...], cluster: Cluster, files: dict[str, str]
) -> None:
    for words in wrong(path, arguments):
        done = typed(cluster, [word.format(**files) for word in words], "one\n")
        told = (words, done.exit_code, done.output)
        assert isinstance(done.exception, SystemExit) or done.exception is None, (*told, repr(done.exception))
        assert done.exit_code in {1, 2}, told
        assert not PYTHON.search(done.output), told
        assert 1 <= len(done.output.splitlines()) <= LINES_MAX, told


def test_options_that_there_are_not_and_missing_arguments_are_usage_errors(cluster: Cluster) -> None:
    for path, arguments in ASKING.items():
        lines = [[*right(path, arguments), "--no-such-option"]]
        if any(isinstance(part, Kind) for part in arguments[:1]):
            lines.append(path.split(" "))
        for words in lines:
            done = typed(cluster, words)
            assert done.exit_code == 2, (words, done.output)
            assert "Usage: " in done.output and not PYTHON.search(done.output)


def test_null_is_not_shown_as_empty(cluster: Cluster) -> None:
    assert typed(cluster, ["topic", "create", "parts", "-p", "1"]).exit_code == 0
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    for key, value in ((None, b""), (b"", None), (b"k", b"v")):
        producer.send("parts", key=key, value=value).get(timeout=HUNG_S)
    producer.close()
    read = ["consume", "parts", "--from-beginning", "-n", "3", "--bootstrap", cluster.bootstrap]
    done = subprocess.run([*TAILRACE, *read, "--key"], capture_output=True, check=True, timeout=HUNG_S)
    assert done.stdout == b"null\t\n\tnull\nk\tv\n"


def test_a_group_with_a_member_is_not_reset_and_not_deleted(cluster: Cluster) -> None:
    consumer = subscribed("orders", bootstrap_servers=cluster.bootstrap, group_id="busy", auto_offset_reset="earliest")
    try:
        assert next(consumer).value == b"one"
        consumer.commit()
        for words in (["group", "reset", "busy", "--to-earliest", "--execute"], ["group", "delete", "busy"]):
            done = typed(cluster, words)
            assert done.exit_code == 1, done.output
            assert "has members" in done.output or "has 1 member" in done.output
    finally:
        consumer.close()


def test_the_clusters_own_topic_is_deleted_only_by_who_says_so_twice(cluster: Cluster) -> None:
    typed(cluster, ["group", "describe", "readers"])  # so that it is there
    words = ["topic", "delete", "__consumer_offsets"]
    assert typed(cluster, words).exit_code == 1
    for answer in ("", "y\n", "orders\n"):
        assert typed(cluster, [*words, "--internal"], answer).exit_code == 1
    assert "__consumer_offsets" in typed(cluster, ["topic", "list"]).output


def test_all_brokers_are_named_as_one_types_them(cluster: Cluster) -> None:
    refused = typed(cluster, ["config", "set", "broker", "default", "log.retention.hours=24"])
    assert refused.exit_code == 1
    assert refused.output.startswith("broker default: INVALID_REQUEST: "), refused.output


def test_the_log_of_a_cluster_in_a_program_is_its_owners(cluster: Cluster) -> None:
    assert cluster.log_path.stat().st_mode & 0o777 == 0o600
