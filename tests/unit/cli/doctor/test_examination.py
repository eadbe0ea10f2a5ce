"""Clusters that are wrong in one way each, as `tailrace doctor` sees them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from support.refusing_cluster import RefusingCluster
from tailrace.cli.daily import app, nodes
from tailrace.cli.doctor import command, examination
from tailrace.cli.doctor.examination import examine
from tailrace.cli.doctor.probe import Probed, Trouble
from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.net.client import Disconnected, NotLoggedIn
from tailrace.wire import messages as m
from tailrace.wire.apis import ApiKey

BOOTSTRAP = "127.0.0.1:9"


class Cluster(RefusingCluster):
    """A sound cluster, but for what a test says."""

    def __init__(
        self,
        *,
        isr: tuple[int, ...] = (0,),
        throttle_time_ms: int = 0,
        password: bool = True,
        refused: tuple[int, str] | None = None,
    ) -> None:
        super().__init__(refused, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        self.isr = isr
        self.throttle_time_ms = throttle_time_ms
        self.password = password
        self.silent: set[Address] = set()

    def answer(self, message: Any) -> Any:
        if not self.password:
            raise NotLoggedIn("Authentication failed: wrong user name or password")
        answer = super().answer(message)
        if message.API_KEY == ApiKey.DESCRIBE_CONFIGS:
            answer = m.DescribeConfigsResponse(results=[_configured(row.resource_name) for row in message.resources])
        if message.API_KEY == ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            for part in answer.topics[0].partitions:
                part.isr_nodes = list(self.isr)
        answer.throttle_time_ms = self.throttle_time_ms
        return answer

    async def probe(self, at: Address, tls: object) -> Probed:
        if at in self.silent:
            return Probed(trouble=Trouble(f"nothing listens at {at}", "Start it"))
        return Probed(("127.0.0.1",))


def _configured(topic: str) -> Any:
    result = m.DescribeConfigsResponse.DescribeConfigsResult
    row = result.DescribeConfigsResourceResult(
        name="min.insync.replicas",
        value="1",
        read_only=False,
        config_source=5,
        is_sensitive=False,
        synonyms=[],
        config_type=3,
        documentation=None,
    )
    return result(error_code=0, error_message=None, resource_type=2, resource_name=topic, configs=[row])


def typed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *words: str) -> Result:
    monkeypatch.setattr(nodes, "Client", cluster.client)
    monkeypatch.setattr(command, "examine", lambda asked, wish: examine(asked, wish, cluster.probe))
    return CliRunner().invoke(app, ["doctor", *words], env={"TAILRACE_BOOTSTRAP": BOOTSTRAP})


def test_a_sound_cluster_is_ok_step_by_step_and_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    done = typed(cluster, monkeypatch)
    assert done.exit_code == 0, done.output
    steps = [line.split()[0] for line in done.output.splitlines()]
    assert steps == ["ok"] * (len(steps) - 2) + ["skip", "ok"]
    assert not {ApiKey.CREATE_TOPICS, ApiKey.PRODUCE, ApiKey.DELETE_TOPICS} & set(cluster.asked)


def steps(done: Result) -> dict[str, dict[str, str]]:
    """The worst finding of each step."""
    found: dict[str, dict[str, str]] = {}
    for row in json.loads(done.stdout)["steps"]:
        if found.get(row["step"], {}).get("state") != "fail":
            found[row["step"]] = row
    return found


def test_an_advertised_address_that_is_not_reached_is_named_with_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.silent = {Address("127.0.0.1", 1)}
    done = typed(cluster, monkeypatch, "--json")
    row = steps(done)["addresses"]
    assert (done.exit_code, row["state"]) == (1, "fail")
    assert row["sentence"] == "broker 0 is advertised at 127.0.0.1:1, but nothing listens at 127.0.0.1:1"
    assert row["advice"].startswith("Start it. Or advertise another") and "gateway.advertised.host" in row["advice"]


def test_a_bootstrap_address_that_is_not_reached_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.silent = {Address.parse(BOOTSTRAP)}
    done = typed(cluster, monkeypatch, "--json")
    assert (done.exit_code, list(steps(done)), cluster.asked) == (1, ["bootstrap"], [])


def test_another_bootstrap_address_is_tried_as_a_client_does(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.silent = {Address.parse(BOOTSTRAP)}
    done = typed(cluster, monkeypatch, "--json", "--bootstrap", f"{BOOTSTRAP},127.0.0.1:8")
    states = [row["state"] for row in json.loads(done.stdout)["steps"] if row["step"] == "bootstrap"]
    assert (done.exit_code, states) == (0, ["warn", "ok"])


def test_a_wrong_password_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    done = typed(Cluster(password=False), monkeypatch, "--json")
    row = steps(done)["login"]
    assert (done.exit_code, row["state"], list(steps(done))) == (1, "fail", ["bootstrap", "login"])
    assert "wrong user name or password" in row["sentence"] and "sasl.jaas.config" in row["advice"]


def test_in_sync_replicas_below_the_least_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    done = typed(Cluster(isr=()), monkeypatch, "--json")
    row = steps(done)["topics"]
    assert (done.exit_code, row["state"]) == (1, "fail")
    assert row["sentence"].startswith("orders-0, orders-1 has fewer in-sync replicas than min.insync.replicas")


def test_a_throttled_client_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    done = typed(Cluster(throttle_time_ms=700), monkeypatch, "--json", "--client-id", "billing")
    row = steps(done)["throttle"]
    assert (done.exit_code, row["state"]) == (0, "warn")
    assert "700 ms" in row["sentence"] and "--client-id billing" in row["advice"]


def test_a_right_that_is_missing_fails_its_step_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(refused=(ApiKey.DESCRIBE_CLIENT_QUOTAS, ""))
    done = typed(cluster, monkeypatch, "--json")
    assert (done.exit_code, steps(done)["quotas"]["state"]) == (0, "warn")
    assert "CLUSTER_AUTHORIZATION_FAILED" in steps(done)["quotas"]["sentence"]


def test_a_client_need_not_see_the_configs_of_its_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hidden(Cluster):
        def answer(self, message: Any) -> Any:
            answer = super().answer(message)
            if message.API_KEY == ApiKey.DESCRIBE_CONFIGS:
                for row in answer.results:
                    row.error_code, row.configs = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []
            return answer

    done = typed(Hidden(), monkeypatch, "--json")
    rows = [row for row in json.loads(done.stdout)["steps"] if row["step"] == "topics"]
    assert (done.exit_code, [row["state"] for row in rows]) == (0, ["skip", "ok"])
    assert rows[0]["sentence"] == "min.insync.replicas of 1 topic is not shown to this client: taken as 1"


def test_a_client_without_a_login_has_the_quotas_of_anonymous(monkeypatch: pytest.MonkeyPatch) -> None:
    done = typed(Cluster(), monkeypatch, "--json", "--client-id", "billing")
    assert "for user ANONYMOUS, client-id billing" in steps(done)["quotas"]["sentence"]


def test_the_address_that_answered_is_the_one_that_speaks_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closing(Cluster):
        def answer(self, message: Any) -> Any:
            raise Disconnected("closed the connection")

    async def yes(at: Address) -> bool:
        return True

    monkeypatch.setattr(examination, "speaks_tls", yes)
    cluster = Closing()
    cluster.silent = {Address.parse(BOOTSTRAP)}
    done = typed(cluster, monkeypatch, "--json", "--bootstrap", f"{BOOTSTRAP},127.0.0.1:8")
    assert steps(done)["login"]["sentence"] == "127.0.0.1:8 speaks TLS, and this client does not"
