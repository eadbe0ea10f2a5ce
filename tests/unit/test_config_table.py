"""The table against what a real Apache Kafka 4.3.1 said of itself (testdata, recorded with DescribeConfigs v4)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.config import DEFINITIONS, TOPIC_DEFINITIONS, describe
from tailrace.config.config import Config
from tailrace.config.definition import Scope
from tailrace.config.describe import Entry

TESTDATA = Path(__file__).parent / "testdata" / "kafka-4.3.1-configs.tsv"
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


def as_recorded(entry: Entry) -> list[str]:
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
    ours = {name for name, definition in DEFINITIONS.items() if definition.scope is Scope.OURS}
    assert described.keys() - kafkas.keys() == ours


@pytest.mark.parametrize("resource", ["topic", "group", "client-metrics"])
def test_every_other_config_of_kafka_is_described_with_kafkas_type_and_default(resource: str) -> None:
    config = Config.load("broker")
    describer = {"topic": describe.topic, "group": describe.group, "client-metrics": describe.client_metrics}
    assert {entry.name: as_recorded(entry) for entry in describer[resource]({}, config)} == recorded(resource)


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


# Code names these, and they have no effect all the same.
NAMED_WITHOUT_EFFECT = {
    "advertised.listeners": "DescribeConfigs answers with what the client is told, whatever is set",
    "quota.url": "the quota service refuses to start with it",
    "remote.storage.enable": "import-kafka refuses topics that have it",
    "ssl.keystore.password": "the memory twin of the REST backend has it as an example of a secret",
}


def named_in_the_code() -> set[str]:
    """Keys that some file outside of tailrace.config reads from a config object, by attribute, or has as a text."""
    root = Path(__file__).parents[2]
    own = root / "libs" / "tailrace" / "config"
    files = [*(root / "libs").rglob("*.py"), *(root / "services").rglob("*.py")]
    text = "\n".join(file.read_text() for file in files if not file.is_relative_to(own))
    attributes = set(re.findall(r"(?:(?<=config\.)|(?<=settings\.)|(?<=self\.))([a-z0-9_]+)", text))
    attributes |= set(re.findall(r"getattr\([^()]*\"([a-z0-9_]+)\"", text))
    literals = set(re.findall(r"\"([a-z0-9]+(?:\.[a-z0-9]+)+)\"", text))
    definitions = (*DEFINITIONS.values(), *TOPIC_DEFINITIONS.values())
    return {one.name for one in definitions if one.attribute in attributes or one.name in literals}


def test_a_key_that_claims_an_effect_is_read_by_some_code() -> None:
    """Not a proof that it is honoured, but a key that nobody reads certainly is not."""
    named = named_in_the_code()
    topics = [definition for name, definition in TOPIC_DEFINITIONS.items() if name in named]
    named |= {synonym.name for definition in topics for synonym in definition.synonyms}
    definitions = (*DEFINITIONS.values(), *TOPIC_DEFINITIONS.values())
    assert not [definition.name for definition in definitions if definition.honoured and definition.name not in named]


def test_a_key_that_some_code_reads_claims_an_effect() -> None:
    definitions = (*DEFINITIONS.values(), *TOPIC_DEFINITIONS.values())
    without = {definition.name for definition in definitions if not definition.honoured}
    assert named_in_the_code() & without == NAMED_WITHOUT_EFFECT.keys()
