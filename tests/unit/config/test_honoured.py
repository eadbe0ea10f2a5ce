"""The keys that are said to have an effect against the modules that read them, both ways."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tailrace.config.definition import ConfigDef
from tailrace.config.definitions import DEFINITIONS, DYNAMIC_DEFINITIONS, GROUP_DEFINITIONS, TOPIC_DEFINITIONS
from tailrace.config.honoured import BROKER_KEYS, GROUP_KEYS, INHERITED, TOPIC_KEYS

ROOT = Path(__file__).parents[3]
SOURCES = (ROOT / "libs", *sorted((ROOT / "services").iterdir()))
# Code names these, and they have no effect all the same.
NAMED_WITHOUT_EFFECT = {
    "sasl.jaas.config": "the commands obey it as clients, in the file of --command-config",
    "ssl.endpoint.identification.algorithm": "the commands obey it as clients, in the file of --command-config",
    "remote.storage.enable": "import-kafka refuses topics that have it",
}
_ATTRIBUTE = re.compile(
    r"(?:(?<=config\.)|(?<=config\.current\.)|(?<=dynamic\.current\.)|(?<=settings\.)|(?<=self\.))([a-z0-9_]+)|getattr\([^()]*\"([a-z0-9_]+)\""
)
_LITERAL = re.compile(r"\"([a-z0-9]+(?:\.[a-z0-9]+)+)\"")


@cache
def texts() -> dict[str, str]:
    """Module -> its text, of all but tailrace.config."""
    return {
        ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): file.read_text()
        for source in SOURCES
        for file in source.rglob("*.py")
        if not file.is_relative_to(ROOT / "libs" / "tailrace" / "config")
    }


def reads(module: str, definition: ConfigDef) -> bool:
    """Whether a module reads a key from a config object, by attribute, or has it as a text."""
    return definition.attribute in attributes(module) or definition.name in _LITERAL.findall(texts()[module])


@cache
def attributes(module: str) -> set[str]:
    return {one or other for one, other in _ATTRIBUTE.findall(texts()[module])}


CLAIMS = [
    (module, definitions[key])
    for keys, definitions in (
        (BROKER_KEYS, DEFINITIONS | DYNAMIC_DEFINITIONS),
        (TOPIC_KEYS, TOPIC_DEFINITIONS),
        (GROUP_KEYS, GROUP_DEFINITIONS),
    )
    for module, of_module in keys.items()
    for key in of_module
]


@pytest.mark.parametrize(("module", "definition"), CLAIMS, ids=[definition.name for _, definition in CLAIMS])
def test_the_module_that_obeys_a_key_reads_it(module: str, definition: ConfigDef) -> None:
    """Not a proof that it is honoured, but a key that the module does not read certainly is not."""
    assert module in texts()
    assert reads(module, definition)


@pytest.mark.parametrize("keys", [BROKER_KEYS, TOPIC_KEYS, GROUP_KEYS], ids=["broker", "topic", "group"])
def test_a_key_stands_at_one_module(keys: dict[str, tuple[str, ...]]) -> None:
    names = [key for of_module in keys.values() for key in of_module]
    assert len(set(names)) == len(names)


def test_a_key_that_some_module_reads_is_in_the_table() -> None:
    definitions = (*DEFINITIONS.values(), *DYNAMIC_DEFINITIONS.values(), *TOPIC_DEFINITIONS.values())
    without = [definition for definition in definitions if not definition.honoured]
    named = {definition.name for definition in without if any(reads(module, definition) for module in texts())}
    assert named == NAMED_WITHOUT_EFFECT.keys()


def test_a_broker_key_that_topics_follow_has_their_effect() -> None:
    followed = {synonym.name for topic in TOPIC_DEFINITIONS.values() if topic.honoured for synonym in topic.synonyms}
    assert all(DEFINITIONS[name].honoured for name in followed)
    inherited = {name for name, definition in DEFINITIONS.items() if definition.obeyed_by == INHERITED}
    assert inherited < followed and "log.retention.ms" in inherited
