"""`tailrace quota`: who is meant, what is asked, and what `top` shows of a gateway's answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from support.refusing_cluster import RefusingCluster
from tailrace.cli.daily import app, nodes, quotas

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
    assert typed("delete", *options, "producer_byte_rate").exit_code == 0
    for message in cluster.messages:
        assert [(part.entity_type, part.entity_name) for part in message.entries[0].entity] == entity
    first, second = ([(op.key, op.value, op.remove) for op in message.entries[0].ops] for message in cluster.messages)
    assert first == [("producer_byte_rate", 1024.0, False), ("request_percentage", 1.5, False)]
    assert second == [("producer_byte_rate", 0.0, True)]


def test_all_of_an_entitys_quotas_are_deleted_where_none_is_named(cluster: Recording) -> None:
    assert typed("delete", "--default-ip").exit_code == typed("delete", "--user", "alice").exit_code == 0
    removed = [[op.key for op in message.entries[0].ops] for message in cluster.messages]
    assert removed[0] == ["connection_creation_rate"] and len(removed[1]) == 4


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
    asked = []

    def get_json(url: str) -> Any:
        asked.append(url)
        return {"data": [ROW, ROW] if url.endswith("quota-usage") else [{"cluster_id": "a/b"}]}

    monkeypatch.setattr(quotas, "get_json", get_json)
    done = typed("top", "--admin", "http://here:1/", "-n", "1")
    assert asked[1] == "http://here:1/v3/clusters/a%2Fb/quota-usage"
    head, row = done.output.splitlines()
    assert head.split()[-4:] == ["share", "throttled", "throttle", "ms"]
    assert row.split() == ["app", "producer_byte_rate", "2000", "1990", "100", "%", "yes", "1234"]
    assert json.loads(typed("top", "--admin", "http://here:1", "--json").output) == [ROW, ROW]
    nobody = typed("top", "--data", str(tmp_path))
    assert nobody.exit_code == 1 and "--admin" in nobody.output
