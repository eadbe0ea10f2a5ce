"""`tailrace quota`: who is meant, what is asked, and what `top` shows of a gateway's answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from support.refusing_cluster import RefusingCluster
from tailrace.cli.daily import app, nodes, quotas
from tailrace.wire import messages as m

ROW = {
    "user": None, "client_id": "app", "ip": None, "broker_id": None, "name": "producer_byte_rate", "limit": 2000.0,
    "usage": 1990.4, "total": 1e6, "throttle_time_ms": 1234, "throttled": True,
}  # fmt: skip


class Recording(RefusingCluster):
    """Keeps what was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Any] = []

    def answer(self, message: Any) -> Any:
        self.messages.append(message)
        return super().answer(message)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Recording:
    found = Recording()
    monkeypatch.setattr(nodes, "Client", found.client)
    return found


def typed(*words: str) -> Result:
    return CliRunner().invoke(app, ["quota", *words], env={"TAILRACE_BOOTSTRAP": "127.0.0.1:1"})


@pytest.mark.parametrize(
    ("options", "entity"),
    [
        (["--client-id", "app"], [("client-id", "app")]),
        (["--default-client-id", "--user", "alice"], [("user", "alice"), ("client-id", None)]),
        (["--default-user"], [("user", None)]),
        (["--ip", "10.0.0.1"], [("ip", "10.0.0.1")]),
        (["--default-ip"], [("ip", None)]),
    ],
)
def test_every_entity_can_be_set_and_deleted(
    options: list[str], entity: list[tuple[str, str | None]], cluster: Recording
) -> None:
    assert typed("set", *options, "producer_byte_rate=1024", "request_percentage=1.5").exit_code == 0
    key = "connection_creation_rate" if entity[0][0] == "ip" else "producer_byte_rate"
    assert typed("delete", *options, key).exit_code == 0
    changes = [message for message in cluster.messages if isinstance(message, m.AlterClientQuotasRequest)]
    for message in changes:
        assert [(part.entity_type, part.entity_name) for part in message.entries[0].entity] == entity
    first, second = ([(op.key, op.value, op.remove) for op in message.entries[0].ops] for message in changes)
    assert first == [("producer_byte_rate", 1024.0, False), ("request_percentage", 1.5, False)]
    assert second == [(key, 0.0, True)]


class Holding(Recording):
    """One entity has quotas."""

    def __init__(self, values: dict[str, float]) -> None:
        super().__init__()
        self.values = values

    def answer(self, message: Any) -> Any:
        answer = super().answer(message)
        if isinstance(message, m.DescribeClientQuotasRequest):
            assert message.strict
            row = answer.entries[0]
            row.values = [row.ValueData(key=key, value=value) for key, value in self.values.items()]
            answer.entries = [row] if self.values else []
        return answer


def removed(cluster: Recording) -> list[list[str]]:
    changes = [message for message in cluster.messages if isinstance(message, m.AlterClientQuotasRequest)]
    return [[op.key for op in message.entries[0].ops if op.remove] for message in changes]


def test_all_of_an_entitys_quotas_are_deleted_where_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Holding({"consumer_byte_rate": 5.0, "a.key.of.a.newer.version": 1.0})
    monkeypatch.setattr(nodes, "Client", cluster.client)
    assert typed("delete", "--user", "alice").exit_code == 0
    assert removed(cluster) == [["consumer_byte_rate", "a.key.of.a.newer.version"]]


@pytest.mark.parametrize(
    ("values", "keys", "words"),
    [
        ({}, [], "user alice has no quotas"),
        ({}, ["consumer_byte_rate"], "user alice has no quotas"),
        ({"consumer_byte_rate": 5.0}, ["consumer_byte_rat"], "no quota 'consumer_byte_rat', but consumer_byte_rate"),
        ({"consumer_byte_rate": 5.0}, ["consumer_byte_rate", "request_percentage"], "no quota 'request_percentage'"),
    ],
)
def test_a_quota_that_there_is_not_is_not_reported_as_deleted(
    values: dict[str, float], keys: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Holding(values)
    monkeypatch.setattr(nodes, "Client", cluster.client)
    done = typed("delete", "--user", "alice", *keys)
    assert done.exit_code == 1 and words in done.output
    assert removed(cluster) == []


@pytest.mark.parametrize(
    "words",
    [
        ["set", "producer_byte_rate=1"],
        ["set", "--user", "a", "--default-user", "producer_byte_rate=1"],
        ["set", "--user", "a", "producer_byte_rate=much"],
        ["set", "--user", "a"],
        ["delete"],
    ],
)
def test_nobody_and_nothing_are_usage_errors(words: list[str], cluster: Recording) -> None:
    assert typed(*words).exit_code == 2
    assert cluster.messages == []


def test_quotas_are_listed_as_a_table_or_for_programs(cluster: Recording) -> None:
    lines = typed("list").output.splitlines()
    assert [line.split() for line in lines] == [
        ["user", "client", "id", "ip", "quota", "value"],
        ["<default>", "producer_byte_rate", "1000"],
        ["billing", "producer_byte_rate", "1000"],
    ]
    (one, _) = json.loads(typed("list", "--json", "--default-client-id").output)
    assert one["entity"] == [{"entity_type": "client-id", "entity_name": "billing"}]
    assert [(part.entity_type, part.match_type, part.match) for part in cluster.messages[1].components] == [
        ("client-id", 1, None)
    ]


def test_top_shows_shares_and_who_is_throttled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    places: list[tuple[str | None, str]] = []

    def asked(admin: str | None, *, below: str) -> tuple[Any, str]:
        places.append((admin, below))
        return ({"data": [ROW, ROW]}, "") if admin else (None, "Nobody can be asked; --admin names one.")

    monkeypatch.setattr(quotas, "asked", asked)
    done = typed("top", "--admin", "http://here:1/", "-n", "1")
    assert places == [("http://here:1/", "quota-usage")]
    head, row = done.output.splitlines()
    assert head.split()[-4:] == ["share", "throttled", "throttle", "ms"]
    assert row.split() == ["app", "producer_byte_rate", "2000", "1990", "100", "%", "yes", "1234"]
    assert json.loads(typed("top", "--admin", "http://here:1", "--json").output) == [ROW, ROW]
    nobody = typed("top", "--data", str(tmp_path))
    assert nobody.exit_code == 1 and "--admin" in nobody.output


def test_a_refused_change_names_its_entity(cluster: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(message: Any) -> Any:
        entry = m.AlterClientQuotasResponse.EntryData(error_code=42, error_message="must be greater than 0", entity=[])
        return m.AlterClientQuotasResponse(throttle_time_ms=0, entries=[entry])

    monkeypatch.setattr(cluster, "answer", refused)
    done = typed("set", "--client-id", "app", "--default-user", "producer_byte_rate=-5")
    assert done.exit_code == 1
    assert done.output == "user <default>, client-id app: INVALID_REQUEST: must be greater than 0\n"
