"""What `tailrace status` prints of a cluster, from the JSON of the REST API."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from support.refusing_cluster import RefusingCluster
from tailrace.cli.daily import app, connection, nodes, status
from tailrace.cli.daily.status import asked, healthy, rendered, running_admin
from tailrace.runtime.run_files import RunFile, start_ticks
from tailrace.wire.messages import DescribeClusterResponse, DescribeConfigsResponse


def count(*partitions: tuple[str, int], more: int = 0) -> dict[str, Any]:
    named = [{"topic_name": name, "partition_id": index} for name, index in partitions]
    return {"count": len(named) + more, "partitions": named}


def cluster(**changes: Any) -> dict[str, Any]:
    controller = {"controller_id": 1, "controller_epoch": 7, "address": "unix:/c-1", "stale": False}
    broker = {"broker_id": 0, "state": "live", "rack": None, "leader_count": 4, "replica_count": 12}
    empty = ("offline", "under_replicated", "under_min_isr", "at_min_isr", "reassigning")
    return {
        "cluster_id": "abc",
        "controller": {**controller, "metadata_offset": 99},
        "brokers": [{**broker, "in_sync_count": 12}],
        "topic_count": 2,
        "partition_count": 12,
        **{f"{name}_partitions": count() for name in empty},
        "preferred_replica_imbalance": count(),
        "reassignments": [],
        "log_dirs_under_pressure": [],
        "offline_log_dirs": [],
        **changes,
    }


def test_a_healthy_cluster_is_said_to_be_so() -> None:
    lines = list(rendered(cluster()))
    assert lines[1] == "Controller  controller-1 at unix:/c-1, epoch 7, metadata offset 99"
    assert lines[3].strip() == "all led by their preferred replica, all replicas in sync"
    assert lines[-1].split() == ["0", "live", "4", "12", "12"]


def test_what_is_wrong_is_counted_and_named() -> None:
    away = count(*((f"t{number}", 0) for number in range(9)), more=3)
    lines = list(rendered(cluster(offline_partitions=count(("a", 0), ("a", 1)), under_min_isr_partitions=away)))
    assert lines[3].strip() == "2 offline: a-0, a-1"
    assert lines[4].strip() == "12 under min ISR: " + ", ".join(f"t{number}-0" for number in range(8)) + " …"


def test_a_move_shows_how_far_its_copy_is() -> None:
    move = {"topic_name": "a", "partition_id": 3, "adding_replicas": [2], "removing_replicas": []}
    known = {**move, "copied_bytes": 500_000, "total_bytes": 2_000_000}
    unknown = {**move, "copied_bytes": None, "total_bytes": None}
    lines = [line for line in rendered(cluster(reassignments=[known, unknown])) if "moving" in line]
    assert lines == ["  moving    a-3 to 2, off -, 25 % of 2.0 MB", "  moving    a-3 to 2, off -"]


def test_a_disk_without_space_is_named_with_what_that_does_to_producers() -> None:
    full = {"broker_id": 2, "log_dir": "/data", "usable_bytes": 12_300_000, "total_bytes": 64_000_000}
    lines = list(rendered(cluster(log_dirs_under_pressure=[{**full, "producers": "refused"}])))
    assert "Disk        broker 2 /data: 12.3 of 64.0 MB left, producers are refused" in lines


def test_a_disk_that_failed_is_named_though_every_partition_has_a_leader() -> None:
    failed = cluster(offline_log_dirs=[{"broker_id": 2, "log_dir": "/data"}])
    assert "Disk        broker 2 /data: OFFLINE until the broker starts again" in list(rendered(failed))
    assert not healthy(failed)


def test_a_controller_that_is_away_is_not_passed_over() -> None:
    stale = {**cluster()["controller"], "stale": True}
    assert "NONE ANSWERS; the last was controller-1" in list(rendered(cluster(controller=stale)))[1]


def test_a_cluster_is_healthy_with_a_controller_and_a_leader_everywhere_and_disks_that_take_records() -> None:
    assert healthy(cluster())
    assert not healthy(None)
    assert not healthy(cluster(offline_partitions=count(("a", 0))))
    assert not healthy(cluster(under_replicated_partitions=count(("a", 0))))
    assert not healthy(cluster(under_min_isr_partitions=count(("a", 0))))
    assert healthy(cluster(preferred_replica_imbalance=count(("a", 0))))
    for state in ("fenced", "controlled-shutdown"):
        assert not healthy(cluster(brokers=[{**cluster()["brokers"][0], "state": state}]))
    assert not healthy(cluster(log_dirs_under_pressure=[{"producers": "refused"}]))
    assert healthy(cluster(log_dirs_under_pressure=[{"producers": "slowed"}]))
    assert not healthy(cluster(controller={**cluster()["controller"], "stale": True}))


@pytest.mark.parametrize("below", ["status", "quota-usage"])
def test_a_gateway_that_cannot_be_asked_is_named(below: str) -> None:
    answer, why = asked("http://127.0.0.1:1", below=below)
    assert answer is None
    assert why.startswith("The gateway cannot be asked: http://127.0.0.1:1: ")


def test_what_is_asked_is_below_the_cluster_that_an_address_names(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, Any] = {
        "http://here:1/v3/clusters": {"data": [{"metadata": {"self": "http://here:1/v3/clusters/a%2Fb"}}]},
        "http://here:1/v3/clusters/a%2Fb/quota-usage": {"data": [1]},
        "http://other:1/v3/clusters": {"data": []},
    }
    monkeypatch.setattr(status, "get_json", answers.__getitem__)
    assert asked("http://here:1/", below="quota-usage") == ({"data": [1]}, "")
    nothing, why = asked("http://other:1", below="quota-usage")
    assert nothing is None and "http://other:1 is not the admin address of a gateway" in why


def test_the_admin_address_is_that_of_a_process_that_runs(tmp_path: Path) -> None:
    assert running_admin(tmp_path) is None
    assert "--admin" in asked(None, below="status")[1]
    (tmp_path / "run").mkdir()
    for index, (ticks, address) in enumerate([(-1, "gone:1"), (0, "here:2")]):
        started = start_ticks(os.getpid()) + ticks
        RunFile("gateway", index, os.getpid(), started, 0, addresses={"admin": address}).write(tmp_path / "run")
    assert running_admin(tmp_path) == "http://here:2"


def test_a_process_that_died_is_shown_and_makes_the_status_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "asked", lambda *_, **__: (cluster(), ""))
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    gateway = RunFile("gateway", 0, os.getpid(), start_ticks(os.getpid()), 0, True, {"admin": "here:2"})
    broker = RunFile("broker", 0, os.getpid(), 1, 0, True, {"internal": "there"})
    gateway.write(run_dir)
    broker.write(run_dir)
    shown = CliRunner().invoke(app, ["status", "--data", str(tmp_path)])
    assert shown.exit_code == 1
    assert [line.split()[:3] for line in shown.output.splitlines() if "broker-0" in line] == [
        ["broker-0", str(os.getpid()), "died"]
    ]
    broker.remove(run_dir)
    assert CliRunner().invoke(app, ["status", "--data", str(tmp_path)]).exit_code == 0
    gateway.died(run_dir)
    assert CliRunner().invoke(app, ["status", "--data", str(tmp_path)]).exit_code == status.NOT_RUNNING


def test_a_broker_that_ended_and_was_unregistered_is_not_missed() -> None:
    ended = [RunFile("broker", number, 1, 0, 0) for number in (0, 1)]
    assert status.expected(ended, cluster()) == ended[:1]
    assert status.expected(ended, None) == ended


class Named(RefusingCluster):
    """A cluster whose brokers say an admin port, or none."""

    def __init__(self, port: str | None) -> None:
        super().__init__()
        self._port = port

    def answer(self, message: Any) -> Any:
        answer = super().answer(message)
        if isinstance(answer, DescribeConfigsResponse):
            for row in answer.results:
                row.configs = [config for config in row.configs if self._port is not None]
                for config in row.configs:
                    config.value = self._port
        if isinstance(answer, DescribeClusterResponse):
            answer.cluster_id = "mine"
        return answer


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """What each URL answers; nothing runs here."""
    found: dict[str, Any] = {}

    def get_json(url: str) -> Any:
        if url not in found:
            raise ConnectionRefusedError("nothing listens")
        return found[url]

    monkeypatch.setattr(status, "get_json", get_json)
    monkeypatch.setenv("TAILRACE_DATA_DIR", str(tmp_path))
    return found


@pytest.mark.parametrize("words", [["status"], ["quota", "top"]])
def test_where_nothing_runs_here_the_cluster_at_kafkas_port_is_asked_as_by_other_commands(
    words: list[str], answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = "http://127.0.0.1:8099/v3/clusters"
    answers[api] = {"data": [{"cluster_id": "mine", "metadata": {"self": f"{api}/mine"}}]}
    answers |= {f"{api}/mine/status": cluster(), f"{api}/mine/quota-usage": {"data": []}}
    monkeypatch.setattr(nodes, "Client", Named("8099").client)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(connection, "DEFAULT_BOOTSTRAP", f"127.0.0.1:{server.getsockname()[1]}")
        done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output


def test_where_nothing_runs_at_all_the_places_are_named_and_how_to_name_another(
    answers: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "DEFAULT_BOOTSTRAP", "127.0.0.1:1")
    done = CliRunner().invoke(app, ["status"])
    assert done.exit_code == status.NOT_RUNNING
    assert done.output.startswith(f"Nothing runs on {tmp_path}, and nothing listens at 127.0.0.1:1. `tailrace up` ")
    assert "TAILRACE_DATA_DIR" in done.output and "TAILRACE_BOOTSTRAP" in done.output


def typed(words: list[str], port: str | None, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setattr(nodes, "Client", Named(port).client)
    return CliRunner().invoke(app, words, env={"TAILRACE_BOOTSTRAP": "127.0.0.1:9092"})


@pytest.mark.parametrize("words", [["status"], ["quota", "top"]])
def test_the_cluster_of_tailrace_bootstrap_is_asked_at_the_admin_port_of_its_brokers(
    words: list[str], answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = "http://127.0.0.1:8099/v3/clusters"
    answers[api] = {"data": [{"cluster_id": "mine", "metadata": {"self": f"{api}/mine"}}]}
    answers |= {f"{api}/mine/status": cluster(), f"{api}/mine/quota-usage": {"data": []}}
    done = typed(words, "8099", monkeypatch)
    assert done.exit_code == 0, done.output
    assert "Cluster     abc" in done.output or "client id" in done.output


@pytest.mark.parametrize("words", [["status"], ["quota", "top"]])
def test_another_clusters_admin_port_is_not_taken_for_it(
    words: list[str], answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers["http://127.0.0.1:8099/v3/clusters"] = {"data": [{"cluster_id": "another"}]}
    done = typed(words, "8099", monkeypatch)
    assert done.exit_code == 1
    assert "127.0.0.1:9092 is cluster mine, but http://127.0.0.1:8099 is of cluster another" in done.output


@pytest.mark.parametrize("port", ["0", None])
def test_a_cluster_that_does_not_say_its_admin_port_is_refused_with_what_names_it(
    port: str | None, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = typed(["status"], port, monkeypatch)
    assert done.exit_code == 1
    assert "--admin URL or TAILRACE_ADMIN names it" in done.output
