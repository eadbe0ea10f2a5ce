"""Every config that Kafka describes, described as Kafka does: type, source, default, synonyms, read-only, sensitive.

Kafka's answers are kept in golden/configs.json (`--targets kafka --rewrite-golden` writes it anew).
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from compat.differences import DIFFERENT_CONFIGS
from support.raw import build
from support.stage import create_topic
from support.targets import Target

GOLDEN = Path(__file__).with_name("golden") / "configs.json"
TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
# Values that belong to one installation, and what both are told differently when they start.
OWN = {
    "advertised.listeners",
    "broker.id",
    "default.replication.factor",
    "controller.listener.names",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "node.id",
    "offsets.topic.replication.factor",
    "process.roles",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
}


def described(target: Target, kind: int, name: str, keys: list[str] | None = None) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    answer = target.ask(build(32, resources=[resource], include_synonyms=True, include_documentation=True), 4)
    (result,) = answer.results
    assert result.error_code == 0, result.error_message
    return {
        row.name: {
            "value": row.value,
            "read_only": row.read_only,
            "source": row.config_source,
            "sensitive": row.is_sensitive,
            "type": row.config_type,
            "documented": bool(row.documentation),
            "synonyms": [[s.name, s.value, s.source] for s in row.synonyms],
        }
        for row in result.configs
    }


@pytest.mark.capability("every config of Kafka, with type, source, default and synonyms")
@pytest.mark.parametrize("kind", ["topic", "broker"])
def test_every_config_is_described_as_kafka_describes_it(
    target: Target, kind: str, pytestconfig: pytest.Config
) -> None:
    found = described(target, TOPIC, create_topic(target).name) if kind == "topic" else described(target, BROKER, "0")
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if pytestconfig.getoption("--rewrite-golden"):
        assert target.is_kafka
        assert "TARGET_KAFKA" not in os.environ, "the golden broker is one that this session started"
        golden[kind] = {name: found[name] for name in sorted(found) if name not in OWN}
        rows = (f' "{k}": {{\n' + ",\n".join(lines(v)) + "\n }" for k, v in sorted(golden.items()))
        GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    assert set(golden[kind]) <= set(found), f"not described: {sorted(set(golden[kind]) - set(found))}"
    differing = {
        name: (found[name], wanted)
        for name, wanted in golden[kind].items()
        if name not in OWN | DIFFERENT_CONFIGS and found[name] != wanted
    }
    assert not differing


def lines(configs: dict[str, Any]) -> list[str]:
    return [f'  "{name}": {json.dumps(entry, sort_keys=True)}' for name, entry in configs.items()]


@pytest.mark.capability("every config of Kafka, with type, source, default and synonyms")
@pytest.mark.parametrize(("kind", "name"), [(TOPIC, ""), (BROKER, "0"), (BROKER, ""), (16, "any"), (32, "any")])
def test_an_empty_list_of_names_is_all_configs(target: Target, kind: int, name: str) -> None:
    name = create_topic(target).name if kind == TOPIC else name
    assert described(target, kind, name, []) == described(target, kind, name)


@pytest.mark.capability("every config of Kafka, with type, source, default and synonyms")
def test_only_the_configs_that_are_asked_for_are_described(target: Target) -> None:
    topic = create_topic(target, configs={"retention.ms": "5000"})
    found = described(target, TOPIC, topic.name, ["retention.ms", "no.such.config"])
    assert list(found) == ["retention.ms"]
    assert found["retention.ms"]["synonyms"] == [["retention.ms", "5000", 1]]


def alter_logger(target: Target, *changes: tuple[str, int, str | None], node: str = "0") -> tuple[int, str | None]:
    configs = [{"name": name, "config_operation": operation, "value": value} for name, operation, value in changes]
    resource = {"resource_type": BROKER_LOGGER, "resource_name": node, "configs": configs}
    (row,) = target.ask(build(44, resources=[resource], validate_only=False), 1).responses
    return row.error_code, row.error_message


@pytest.mark.capability("log levels are described and altered while it runs (KIP-412)")
def test_the_level_of_the_root_logger_is_altered_and_set_back(target: Target) -> None:
    before = described(target, BROKER_LOGGER, "0", ["root"])["root"]
    assert {**before, "value": ""} == {
        "value": "", "read_only": False, "source": 6, "sensitive": False, "type": 0, "documented": False,
        "synonyms": [],
    }  # fmt: skip
    for level in ("FATAL", before["value"]):
        assert alter_logger(target, ("root", 0, level)) == (0, None)
        assert described(target, BROKER_LOGGER, "0", ["root"])["root"]["value"] == level
    assert "root" in described(target, BROKER_LOGGER, "0", [])


@pytest.mark.capability("log levels are described and altered while it runs (KIP-412)")
@pytest.mark.parametrize(
    ("node", "changes", "code", "message"),
    [
        (
            "0",
            [("root", 0, "info")],
            40,
            "Cannot set the log level of root to info as it is not a supported log level.",
        ),
        ("0", [("root", 0, None)], 42, "Null value not supported for : root"),
        ("0", [("root", 1, None)], 42, "Removing the log level of the root logger is not allowed"),
        ("0", [("root", 2, "INFO")], 42, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        ("0", [("root", 3, "INFO")], 42, "SUBTRACT operation is not allowed for the BROKER_LOGGER resource"),
        ("0", [("no.such", 0, "INFO")], 40, "Logger no.such does not exist!"),
        ("0", [("no.such", 1, None)], 40, "Logger no.such does not exist!"),
        ("0", [("root", 0, "INFO"), ("root", 0, "WARN")], 42, "Error due to duplicate config keys"),
        ("77", [("root", 0, "INFO")], 42, "Unexpected node id. Expected 0, but received 77"),
        ("x", [("root", 0, "INFO")], 42, "Node id must be an integer, but it is: x"),
        ("", [("root", 0, "INFO")], 42, "Node id must be an integer, but it is: "),
    ],
)
def test_a_level_that_cannot_be_is_refused(
    target: Target, node: str, changes: list[tuple[str, int, str | None]], code: int, message: str
) -> None:
    found, why = alter_logger(target, *changes, node=node)
    assert (found, (why or "").startswith(message)) == (code, True), why
