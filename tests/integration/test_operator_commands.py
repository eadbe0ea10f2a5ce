"""What an operator types: brokers listed, emptied and forgotten, replicas moved, leaders elected, the status read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from kafka import KafkaProducer
from typer.testing import CliRunner, Result

from support.ports import free_ports
from support.subscribing import subscribed
from support.waiting import HUNG_S, until
from tailrace.cli.daily import app
from tailrace.testing import Cluster


def three_brokers(folder: Path) -> Cluster:
    """One that dies stays dead."""
    settings = {"offsets.topic.num.partitions": "2", "auto.leader.rebalance.enable": "false"}
    return Cluster(brokers=3, port=free_ports(3), data_dir=folder, settings=settings, arguments=["--no-restart"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with three_brokers(tmp_path_factory.mktemp("operated")) as started:
        yield started


def invoked(cluster: Cluster, *arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(app, arguments, input=typed, env={"TAILRACE_BOOTSTRAP": cluster.bootstrap})


def run(cluster: Cluster, *arguments: str, status: int = 0, typed: str = "") -> str:
    """What the command prints on stdout; it must end with `status`. test_cli.py starts a process for each."""
    done = invoked(cluster, *arguments, typed=typed)
    assert isinstance(done.exception, SystemExit) or done.exception is None, repr(done.exception)
    assert done.exit_code == status, done.output
    return done.stdout or done.stderr


def replicas(cluster: Cluster, topic: str) -> list[list[int]]:
    return [row["replica_ids"] for row in json.loads(run(cluster, "topic", "describe", topic, "--json"))]


def brokers(cluster: Cluster) -> dict[int, Any]:
    return {row["broker_id"]: row for row in json.loads(run(cluster, "broker", "list", "--json"))}


def test_log_dirs_are_listed_and_replicas_are_moved_to_them_or_refused(cluster: Cluster) -> None:
    run(cluster, "topic", "create", "shelved", "-p", "2", "-r", "1")
    rows = json.loads(run(cluster, "broker", "log-dirs", "--json"))
    assert [(row["broker_id"], row["state"], row["producers"], row["moving_here_count"]) for row in rows] == [
        (n, "online", "accepted", 0) for n in range(3)
    ]
    ((owner,), _) = replicas(cluster, "shelved")
    here = rows[owner]["log_dir"] + "/"  # as a shell completes it
    said = run(cluster, "broker", "move-replicas", str(owner), here, "-t", "shelved", "-p", "0")
    assert said.startswith(f"1 replica of broker {owner} moves to ")
    refused = run(cluster, "broker", "move-replicas", str(owner), "/no/such/dir", "-t", "shelved", status=1)
    assert "shelved-0: " in refused and "LOG_DIR_NOT_FOUND" in refused
    assert "broker 9 is not live" in run(cluster, "broker", "move-replicas", "9", "/d", "-t", "shelved", status=1)
    run(cluster, "topic", "delete", "shelved")


def test_who_wrote_to_a_topic_is_told(cluster: Cluster) -> None:
    run(cluster, "topic", "create", "written", "-p", "2", "-r", "2")
    for count in (1, 3):
        writer = KafkaProducer(bootstrap_servers=cluster.bootstrap, enable_idempotence=True, acks="all")
        for _ in range(count):
            writer.send("written", b"v", partition=1).get(timeout=HUNG_S)
        writer.close()
    rows = json.loads(run(cluster, "topic", "producers", "written", "--json"))
    assert [(row["partition_id"], row["producer_epoch"], row["last_sequence"]) for row in rows] == [
        (1, 0, 2),
        (1, 0, 0),
    ]
    assert {(row["coordinator_epoch"], row["current_txn_start_offset"]) for row in rows} == {(None, None)}
    head, *shown = run(cluster, "topic", "producers", "written", "-p", "1").splitlines()
    assert head.split()[:3] == ["partition", "producer", "epoch"]
    assert [line.split()[:4] for line in shown] == [
        ["1", str(row["producer_id"]), "0", str(row["last_sequence"])] for row in rows
    ]
    assert run(cluster, "topic", "producers", "written", "-p", "0", "--json") == "[]\n"
    _, (leader, follower) = replicas(cluster, "written")
    (other,) = {0, 1, 2} - {leader, follower}

    def of_the_follower() -> Any:
        return json.loads(run(cluster, "topic", "producers", "written", "-p", "1", "--broker", str(follower), "--json"))

    until(lambda: of_the_follower() == rows, "the follower tells the same")
    said = run(cluster, "topic", "producers", "written", "-p", "1", "--broker", str(other), status=1)
    assert said == f"broker {other} has no replica of it\n"
    assert "written-9: no such partition" in run(cluster, "topic", "producers", "written", "-p", "9", status=1)
    assert "no such topic" in run(cluster, "topic", "producers", "unwritten", status=1)
    with urlopen(f"{cluster.admin}/v3/clusters") as answer:
        root = json.load(answer)["data"][0]["metadata"]["self"]
    with urlopen(f"{root}/topics/written/partitions/1/producers") as answer:
        listed = json.load(answer)["data"]
    assert [(one["producer_id"], one["last_sequence"], one["last_timestamp_ms"]) for one in listed] == [
        (row["producer_id"], row["last_sequence"], row["last_timestamp_ms"]) for row in rows
    ]
    run(cluster, "topic", "delete", "written")


def test_a_topic_is_moved_by_a_plan_and_back_by_what_was_printed(cluster: Cluster, tmp_path: Path) -> None:
    run(cluster, "topic", "create", "moved", "-p", "3", "-r", "3")
    before = replicas(cluster, "moved")
    plan = tmp_path / "plan.json"
    plan.write_text(run(cluster, "reassign", "generate", "-t", "moved", "--brokers", "0,1", "-r", "2"))
    assert "other replicas" in run(cluster, "reassign", "verify", str(plan), status=1)
    back = tmp_path / "back.json"
    back.write_text(run(cluster, "reassign", "execute", str(plan), "--wait"))
    assert "in progress" not in run(cluster, "reassign", "verify", str(plan))
    assert replicas(cluster, "moved") == [[0, 1], [1, 0], [0, 1]]
    run(cluster, "reassign", "execute", str(back), "--throttle", "50000000")
    until(lambda: "in progress" not in invoked(cluster, "reassign", "verify", str(back)).output, "the way back")
    assert "complete" in run(cluster, "reassign", "verify", str(back))
    until(lambda: "throttled" not in run(cluster, "config", "show", "topic", "moved"), "no throttle")
    assert replicas(cluster, "moved") == before
    assert "No partition is being reassigned." in run(cluster, "reassign", "list")
    assert "None of these is being reassigned" in run(cluster, "reassign", "cancel", "--all")


def test_a_plan_that_makes_no_sense_is_refused_in_a_sentence(cluster: Cluster) -> None:
    run(cluster, "topic", "create", "kept", "-p", "1", "-r", "1")
    plan = {"version": 1, "partitions": [{"topic": "kept", "partition": 0, "replicas": [77]}]}
    said = run(cluster, "reassign", "execute", "-", typed=json.dumps(plan), status=1)
    assert said.startswith("kept-0: INVALID_REPLICA_ASSIGNMENT: ")
    assert "not a plan" in run(cluster, "reassign", "execute", "-", typed="[]", status=1)
    assert "no such topic" in run(cluster, "topic", "describe", "nothing", status=1)


def test_preferred_leaders_are_elected(cluster: Cluster) -> None:
    run(cluster, "topic", "create", "led", "-p", "1", "-r", "3")
    (first, *others), *_ = replicas(cluster, "led")
    plan = {"version": 1, "partitions": [{"topic": "led", "partition": 0, "replicas": [*others, first]}]}
    run(cluster, "reassign", "execute", "-", "--wait", typed=json.dumps(plan))
    elected = json.loads(run(cluster, "elect-leaders", "--topic", "led", "--json"))
    assert [(row["leader_id"], row["error"]) for row in elected] in ([], [(others[0], None)])
    assert json.loads(run(cluster, "topic", "describe", "led", "--json"))[0]["leader_id"] == others[0]
    assert "No election was needed." in run(cluster, "elect-leaders", "--topic", "led")


def test_brokers_that_are_to_go_are_emptied_to_those_that_stay_and_forgotten_when_they_are_stopped(
    tmp_path: Path,
) -> None:
    with three_brokers(tmp_path) as cluster:
        assert "no broker has an id of 3" in run(cluster, "broker", "scale-down", "3")
        run(cluster, "topic", "create", "alone", "-p", "6", "-r", "1")
        run(cluster, "topic", "create", "pairs", "-p", "3", "-r", "2")
        assert "may stop" in run(cluster, "broker", "may-stop", "1", "--timeout", str(HUNG_S))
        run(cluster, "broker", "scale-down", "2", "--timeout", str(HUNG_S))
        assert {node for name in ("alone", "pairs") for nodes in replicas(cluster, name) for node in nodes} == {0, 1}
        assert "broker 2 still runs" in run(
            cluster, "broker", "scale-down", "2", "--forget", "--timeout", "0.2", status=1
        )
        cluster.kill("broker", 2)
        run(cluster, "broker", "scale-down", "2", "--forget", "--timeout", str(HUNG_S))
        assert set(brokers(cluster)) == {0, 1}


def test_brokers_that_are_to_go_are_waited_for_again_after_a_command_that_gave_up(tmp_path: Path) -> None:
    """The moves that an earlier command left go on; a later one waits for them."""
    with three_brokers(tmp_path) as cluster:
        run(cluster, "topic", "create", "alone", "-p", "1", "-r", "1")
        move_alone(cluster, 2)
        values = [b"%d" % number + bytes(900_000) for number in range(40)]
        with KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
            for value in values:
                producer.send("alone", value, partition=0)
        move_alone(cluster, 0, "--throttle", "1000000")  # half a minute for these
        gave_up = run(cluster, "broker", "scale-down", "2", "--timeout", "8", status=1)
        assert "not done within 8 s: replicas are still on their way" in gave_up
        assert "alone" in run(cluster, "reassign", "list")
        run(cluster, "broker", "scale-down", "2", "--timeout", str(HUNG_S))
        assert replicas(cluster, "alone") == [[0]]
        assert brokers(cluster)[2]["replica_count"] == 0
        cluster.kill("broker", 2)
        with subscribed("alone", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            assert [next(consumer).value for _ in values] == values


def move_alone(cluster: Cluster, broker: int, *more: str) -> None:
    """Begins to move the topic's only replica to a broker; waits for it where there is no throttle."""
    plan = {"version": 1, "partitions": [{"topic": "alone", "partition": 0, "replicas": [broker]}]}
    run(cluster, "reassign", "execute", "-", *(more or ["--wait"]), typed=json.dumps(plan))


def test_a_broker_whose_partitions_wait_for_other_replicas_may_not_stop(tmp_path: Path) -> None:
    with three_brokers(tmp_path) as cluster:
        run(cluster, "topic", "create", "watched", "-p", "1", "-r", "3")
        cluster.kill("broker", 2)
        until(lambda: brokers(cluster)[2]["in_sync_count"] == 0, "broker 2 is out of sync")
        refused = run(cluster, "broker", "may-stop", "1", "--timeout", "5", status=1)
        assert "not done within 5 s" in refused and "not in sync" in refused


def test_a_broker_is_emptied_stopped_and_forgotten(tmp_path: Path) -> None:
    with three_brokers(tmp_path) as cluster:
        run(cluster, "topic", "create", "spread", "-p", "6", "-r", "2")
        run(cluster, "topic", "create", "full", "-p", "1", "-r", "3")
        assert brokers(cluster)[2]["replica_count"]
        assert "--shrink" in run(cluster, "broker", "drain", "2", status=1)  # three replicas have nowhere to go
        assert '"partitions"' in run(cluster, "broker", "drain", "2", "--shrink", "--dry-run")
        before = {name: replicas(cluster, name) for name in ("spread", "full")}
        assert "partitions that broker 2 led have another leader" in run(
            cluster, "broker", "drain", "2", "--leaders-only", "--timeout", str(HUNG_S)
        )
        assert brokers(cluster)[2]["leader_count"] == 0
        after = {name: replicas(cluster, name) for name in before}
        assert {name: [sorted(row) for row in rows] for name, rows in after.items()} == {
            name: [sorted(row) for row in rows] for name, rows in before.items()
        }
        assert "holds no partition" in run(cluster, "broker", "drain", "2", "--shrink")
        assert brokers(cluster)[2]["replica_count"] == 0
        assert {node for nodes in replicas(cluster, "spread") for node in nodes} == {0, 1}
        assert "runs: stop it first" in run(cluster, "broker", "unregister", "2", status=1)
        cluster.kill("broker", 2)
        until(lambda: brokers(cluster)[2]["state"] == "fenced", "broker 2 is fenced")
        run(cluster, "broker", "unregister", "2")
        assert set(brokers(cluster)) == {0, 1}
        status = json.loads(run(cluster, "status", "--data", str(tmp_path), "--json"))["cluster"]
        assert [row["state"] for row in status["brokers"]] == ["live", "live"]
        assert status["under_replicated_partitions"]["count"] == 0
        assert status["controller"]["controller_epoch"] >= 1
