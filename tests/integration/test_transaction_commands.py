"""`tailrace transaction` on a cluster where one transaction hangs and another is open for long."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from support.stage import Topic, create_topic
from support.targets import Target
from support.transactional import Transactional
from support.transactions_read import values, write_plain
from support.waiting import until
from tailrace.cli.daily import app
from tailrace.errors import ErrorCode
from tailrace.testing import Cluster

# Without it a partition takes no batch of a transaction that its coordinator does not know, so that none can hang.
SETTINGS = {"transaction.partition.verification.enable": "false", "transaction.state.log.num.partitions": "2"}
LATE_MS = 25 * 60_000  # longer than transaction.max.timeout.ms and five minutes


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(data_dir=tmp_path_factory.mktemp("transactions"), settings=SETTINGS) as started:
        yield started


@pytest.fixture(scope="module")
def here(cluster: Cluster) -> Target:
    host, _, port = cluster.bootstrap.rpartition(":")
    return Target("tailrace1", host, int(port), Path(cluster.data_dir))


@pytest.fixture
def topic(here: Target) -> Topic:
    return create_topic(here, partitions=2)


@pytest.fixture
def new(here: Target) -> Iterator[Callable[[], Transactional]]:
    """Producers with a transactional id, closed in the end."""
    with ExitStack() as stack:

        def make() -> Transactional:
            made = Transactional(here)
            stack.callback(made.close)
            assert made.init(timeout_ms=800_000) is ErrorCode.NONE
            return made

        yield make


def typed(here: Target, *words: str, status: int = 0) -> str:
    done = CliRunner().invoke(app, ["transaction", *words], env={"TAILRACE_BOOTSTRAP": here.bootstrap})
    assert done.exit_code == status, done.output
    return done.output


def read(here: Target, topic: Topic, partition: int = 0) -> None:
    """Waits until a reader at read_committed sees the plain record, and sees nothing else."""
    until(lambda: values(here, topic, partition, committed=True) == ["plain"] or None, "the plain record")


def test_an_open_transaction_is_listed_described_and_ended_with_its_producer(
    here: Target, topic: Topic, new: Callable[[], Transactional]
) -> None:
    one, idle = new(), new()
    assert set(one.begun(topic, 0, 1)) == {ErrorCode.NONE}
    for partition in (0, 1):
        assert one.produce(topic, "open", partition=partition) is ErrorCode.NONE
    head, *rows = (line.split() for line in typed(here, "list", "--state", "Ongoing").splitlines())
    assert head == ["transactional", "id", "coordinator", "producer", "state"]
    assert [one.name, "0", str(one.producer_id), "Ongoing"] in rows
    open_ones = json.loads(typed(here, "list", "--longer-than-ms", "0", "--json"))
    names = {row["transactional_id"] for row in open_ones}
    assert one.name in names and idle.name not in names
    described = json.loads(typed(here, "describe", one.name, "--json"))
    assert (described["state"], described["timeout_ms"]) == ("ONGOING", 800_000)
    assert described["partitions"] == [{"topic_name": topic.name, "partition_id": n} for n in (0, 1)]

    expected = f"{one.name}: producer {one.producer_id} is fenced at epoch 0; its open transaction is aborted\n"
    assert typed(here, "terminate", one.name) == expected
    assert one.produce(topic, "late") is ErrorCode.INVALID_PRODUCER_EPOCH
    for partition in (0, 1):
        write_plain(topic, partition)
        read(here, topic, partition)
    assert typed(here, "terminate", one.name).endswith("; it had no open transaction\n")
    assert one.name not in typed(here, "list", "--state", "Ongoing")


def test_a_transaction_that_hangs_is_found_and_ended_on_its_partition(
    here: Target, topic: Topic, new: Callable[[], Transactional]
) -> None:
    of_the_topic = ("find-hanging", "--topic", topic.name)
    assert typed(here, *of_the_topic) == "No transaction hangs.\n"
    write_plain(topic)
    one, late = new(), new()
    assert one.produce(topic, "of none", ago_ms=LATE_MS) is ErrorCode.NONE  # its coordinator is not told
    assert late.begun(topic, 0) == [ErrorCode.NONE]
    assert late.produce(topic, "of a coordinator", ago_ms=LATE_MS) is ErrorCode.NONE
    write_plain(topic)
    assert values(here, topic, committed=True) == ["plain"]

    (row,) = json.loads(typed(here, *of_the_topic, "--json"))
    assert (row["partition_id"], row["start_offset"], row["producer_id"]) == (0, 1, one.producer_id)
    assert row["minutes"] >= 20
    head, shown = typed(here, *of_the_topic).splitlines()
    assert head.split()[:2] == ["topic", "partition"]
    assert shown.split()[:4] == [topic.name, "0", "1", str(one.producer_id)]
    assert typed(here, *of_the_topic, "--max-transaction-timeout", "30") == "No transaction hangs.\n"

    place = ("abort", "--topic", topic.name, "--partition", "0", "--start-offset")
    refused = typed(here, *place, "2", status=1)
    assert f"it does not hang, {late.name} has it open; `tailrace transaction terminate {late.name}`" in refused
    assert typed(here, *place, "1") == f"{topic.name}-0: the transaction of producer {one.producer_id} is aborted\n"
    assert f"`tailrace topic producers {topic.name}`" in typed(here, *place, "1", status=1)
    assert typed(here, *of_the_topic) == "No transaction hangs.\n"
    assert late.ended(True) is ErrorCode.NONE
    expected = ["plain", "of a coordinator", "plain"]
    until(lambda: values(here, topic, committed=True) == expected or None, "all that was committed")


def test_what_cannot_be_asked_is_refused_in_a_sentence(here: Target) -> None:
    said = typed(here, "list", "--state", "ongoing", status=1)
    assert said.startswith("ongoing: no such state; the states are Empty, Ongoing, PrepareCommit, ")
    assert "not a regular expression" in typed(here, "list", "--pattern", "[", status=1)
    for command in ("describe", "terminate"):
        assert typed(here, command, "nope", status=1).startswith("nope: no such transactional id")


def test_the_rest_api_and_the_metrics_show_what_is_open_in_partitions(
    cluster: Cluster, here: Target, topic: Topic, new: Callable[[], Transactional]
) -> None:
    one, late = new(), new()
    assert one.begun(topic, 1) == late.begun(topic, 0) == [ErrorCode.NONE]
    assert one.produce(topic, "open", partition=1) is ErrorCode.NONE
    assert late.produce(topic, "late", ago_ms=LATE_MS) is ErrorCode.NONE
    with urlopen(f"{cluster.admin}/v3/clusters") as answer:
        root = json.load(answer)["data"][0]["metadata"]["self"]
    with urlopen(f"{root}/topics/-/partitions/-/transactions") as answer:
        mine = [row for row in json.load(answer)["data"] if row["topic_name"] == topic.name]
    assert [(row["partition_id"], row["state"], row["transactional_id"]) for row in mine] == [
        (0, "LATE", late.name),
        (1, "OPEN", one.name),
    ]
    ran = json.loads((cluster.data_dir / "run" / "broker-0.json").read_text())
    with urlopen(f"http://{ran['addresses']['http']}/metrics") as answer:
        metrics = answer.read().decode()
    for name, partition in (("open", 0), ("open", 1), ("late", 0)):
        assert f'tailrace_{name}_transactions{{partition="{partition}",topic="{topic.name}"}} 1.0' in metrics
    assert late.ended(False) is one.ended(True) is ErrorCode.NONE
