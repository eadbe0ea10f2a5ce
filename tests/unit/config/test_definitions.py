"""The table against what a real Apache Kafka 4.4.0 said of itself (testdata, recorded with DescribeConfigs v4)."""

import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.config import DEFINITIONS, TOPIC_DEFINITIONS, describe
from tailrace.config.config import Config
from tailrace.config.definition import ConfigScope
from tailrace.config.definitions import lines
from tailrace.config.describe import ConfigEntry
from tailrace.config.validators import validator

TESTDATA = Path(__file__).parent / "testdata" / "kafka-4.4.0-configs.tsv"
NO_DEFAULT_IN_KAFKA = {"node.id", "process.roles", "controller.listener.names"}
# tests/compat/differences.py says why
OTHER_DEFAULTS = {
    "queued.max.request.bytes": "268435456",
    "socket.receive.buffer.bytes": "-1",
    "socket.send.buffer.bytes": "-1",
}


def recorded(resource: str) -> dict[str, list[str]]:
    rows = [line.split("\t") for line in TESTDATA.read_text().splitlines() if not line.startswith("#")]
    return {row[1]: row[2:] for row in rows if row[0] == resource}


def as_recorded(entry: ConfigEntry) -> list[str]:
    return [
        str(entry.type),
        "null" if entry.value is None else entry.value,
        "ro" if entry.read_only else "rw",
        "secret" if entry.is_sensitive else "plain",
        ",".join(synonym.name for synonym in entry.synonyms if synonym.name != entry.name),
    ]


def test_every_broker_config_of_kafka_is_described_with_kafkas_type_and_default() -> None:
    described = {entry.name: as_recorded(entry) for entry in describe.broker(Config.load("broker"), {}, {})}
    kafkas = recorded("broker")
    for name, default in OTHER_DEFAULTS.items():
        kafkas[name][1] = default
    del described["process.roles"]  # load fills in the role
    assert {name: described.get(name) for name in kafkas if name not in NO_DEFAULT_IN_KAFKA} == {
        name: row for name, row in kafkas.items() if name not in NO_DEFAULT_IN_KAFKA
    }
    ours = {name for name, definition in DEFINITIONS.items() if definition.scope is ConfigScope.OURS}
    assert described.keys() - kafkas.keys() == ours


@pytest.mark.parametrize("resource", ["topic", "group", "client-metrics"])
def test_every_other_config_of_kafka_is_described_with_kafkas_type_and_default(resource: str) -> None:
    config = Config.load("broker")
    describer = {"topic": describe.topic, "group": describe.group, "client-metrics": describe.client_metrics}
    found = {entry.name: as_recorded(entry) for entry in describer[resource]({}, config)}
    assert {name: row for name, row in found.items() if not name.startswith("tailrace.")} == recorded(resource)


def test_every_config_has_a_sentence_of_documentation() -> None:
    for definition in (*DEFINITIONS.values(), *TOPIC_DEFINITIONS.values()):
        assert definition.doc.endswith(".") and definition.doc[0].isalnum(), definition.name


def test_every_default_is_a_value_that_may_be_set() -> None:
    for definition in (*DEFINITIONS.values(), *TOPIC_DEFINITIONS.values()):
        if definition.default is not None:
            assert definition.parse(definition.text(definition.default) or "") == definition.default


def test_attributes_and_environment_names_are_unambiguous() -> None:
    assert len({definition.attribute for definition in DEFINITIONS.values()}) == len(DEFINITIONS)
    assert not {definition.attribute for definition in DEFINITIONS.values()} & set(dir(Config))


def test_the_generated_types_are_current() -> None:
    check = [sys.executable, "-m", "tailrace.config.generate", "--check"]
    assert subprocess.run(check, check=False, capture_output=True, text=True).stderr == ""


def test_a_topics_honoured_key_names_broker_keys_that_exist() -> None:
    for definition in TOPIC_DEFINITIONS.values():
        for synonym in definition.synonyms:
            assert synonym.name in DEFINITIONS


def test_each_table_names_a_key_once_for_a_scope_and_in_order() -> None:
    for table in ("kafka.tsv", "ours.tsv"):
        names = [(scope, name) for scope, name, *_ in lines(table)]
        assert len(set(names)) == len(names)
        scopes = list(dict.fromkeys(scope for scope, _ in names))
        assert names == sorted(names, key=lambda row: (scopes.index(row[0]), row[1]))


def test_the_valid_values_of_a_key_are_written_as_it_shows_them() -> None:
    for table in ("kafka.tsv", "ours.tsv"):
        for _, name, type_, _, values, *_ in lines(table):
            if values:
                assert str(validator(values, of_list=type_ == "list")) == values, name
