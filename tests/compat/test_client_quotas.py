"""Client quotas as Apache Kafka has them: entities by kafka-configs, filters, refusals (KIP-546, KIP-612)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from support import java_tools as tools
from support.java_tools import JavaTools, Shell
from support.raw import build
from support.stage import unique
from support.targets import Target
from support.waiting import until

ALTER, DESCRIBE = 49, 48
INVALID_REQUEST, UNSUPPORTED_VERSION = 42, 35
EXACT, DEFAULT, ANY = range(3)
Entity = dict[str, str | None]
capability = pytest.mark.capability("client quotas are set and described")
refusals = pytest.mark.capability("client quotas that Kafka refuses are refused")
FAST = 1_000_000_000.0  # defaults concern the clients of other scripts


def entity_of(rows: Any) -> Entity:
    return {row.entity_type: row.entity_name for row in rows}


def alter(target: Target, entity: Entity, *ops: tuple[str, float | None], validate_only: bool = False) -> Any:
    entry = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops],
    }
    (row,) = target.ask(build(ALTER, entries=[entry], validate_only=validate_only), 1).entries
    return row


def describe(target: Target, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    rows = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
    return target.ask(build(DESCRIBE, components=rows, strict=strict), 1)


def found(target: Target, *components: tuple[str, int, str | None], strict: bool = False) -> list[Entity]:
    answer = describe(target, *components, strict=strict)
    assert answer.error_code == 0, answer.error_message
    return sorted((entity_of(entry.entity) for entry in answer.entries), key=str)


# -- kafka-configs.sh ----------------------------------------------------------------------------------------------

# (how kafka-configs is told, with NAME for a name; how it tells; the quota)
ENTITIES = [
    (["users", "NAME"], "user-principal 'NAME'", "producer_byte_rate=1000000.0"),
    (["users", None], "the default user-principal", f"consumer_byte_rate={FAST:.0f}"),
    (["clients", "NAME"], "client-id 'NAME'", "request_percentage=150.5"),
    (["clients", None], "the default client-id", f"producer_byte_rate={FAST:.0f}"),
    (["users", "NAME", "clients", "NAME"], "user-principal 'NAME', client-id 'NAME'", "controller_mutation_rate=7.5"),
    (["users", "NAME", "clients", None], "user-principal 'NAME', the default client-id", "consumer_byte_rate=5.0"),
    (["users", None, "clients", "NAME"], "the default user-principal, client-id 'NAME'", "producer_byte_rate=5.0"),
    (["ips", "10.1.2.3"], "ip '10.1.2.3'", "connection_creation_rate=11.0"),
    (["ips", None], "the default ip", "connection_creation_rate=1000000.0"),
]


@pytest.fixture
def shell(target: Target, jvm: JavaTools) -> Shell:
    return Shell(jvm, target.bootstrap)


@capability
@pytest.mark.by("java")
@pytest.mark.parametrize(("words", "told", "quota"), ENTITIES, ids=[told for _, told, _ in ENTITIES])
def test_kafka_configs_alters_and_describes(
    target: Target, shell: Shell, words: list[str | None], told: str, quota: str
) -> None:
    name = unique("quota")
    named: list[str] = []
    kinds: list[str] = []
    for kind, entity_name in zip(words[::2], words[1::2], strict=True):
        assert kind is not None
        kinds += ["--entity-type", kind]
        named += ["--entity-type", kind]
        named += ["--entity-default"] if entity_name is None else ["--entity-name", entity_name.replace("NAME", name)]
    key, _, value = quota.partition("=")
    shell.out(tools.CONFIGS, "--alter", *named, "--add-config", quota)
    try:
        line = f"Quota configs for {told.replace('NAME', name)} are {key}={java_double(float(value))}"
        until(lambda: line in shell.out(tools.CONFIGS, "--describe", *named).splitlines(), line)
        assert line in shell.out(tools.CONFIGS, "--describe", *kinds).splitlines()
    finally:
        shell.out(tools.CONFIGS, "--alter", *named, "--delete-config", key)
    until(lambda: key not in shell.out(tools.CONFIGS, "--describe", *named), "no quota")


def java_double(value: float) -> str:
    """As Java writes it."""
    if value < 1e7:
        return str(value)
    mantissa, _, exponent = f"{value:e}".partition("e")
    return f"{float(mantissa)}E{int(exponent)}"


@refusals
@pytest.mark.by("java")
@pytest.mark.parametrize(
    ("kind", "quota", "why"),
    [
        ("clients", "producer_byte_rate=0", "Quota producer_byte_rate must be greater than 0"),
        ("users", "consumer_byte_rate=-1", "Quota consumer_byte_rate must be greater than 0"),
        ("clients", "producer_byte_rate=1e300", "Proposed value for producer_byte_rate is too large for a LONG."),
        ("clients", "producer_byte_rate=Infinity", "Quota producer_byte_rate must be a finite number"),
        ("users", "consumer_byte_rate=1.5", "consumer_byte_rate cannot be a fractional value."),
        (
            "ips",
            "connection_creation_rate=3000000000",
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_kafka_configs_tells_what_is_refused(shell: Shell, kind: str, quota: str, why: str) -> None:
    name = "10.9.9.9" if kind == "ips" else unique("quota")
    named = ("--entity-type", kind, "--entity-name", name)
    done = shell.run(tools.CONFIGS, "--alter", *named, "--add-config", quota)
    assert done.code == 1 and why in done.out + done.err, (done.out, done.err)
    assert "Quota configs" not in shell.out(tools.CONFIGS, "--describe", *named)


# -- the protocol itself -------------------------------------------------------------------------------------------


@pytest.fixture
def quotas(target: Target) -> Iterator[tuple[str, str]]:
    """A user and a client id with quotas in five combinations."""
    user, client_id = unique("user"), unique("client")
    entities: list[Entity] = [
        {"user": user},
        {"client-id": client_id},
        {"user": user, "client-id": client_id},
        {"user": user, "client-id": None},
        {"user": None, "client-id": client_id},
    ]
    for entity in entities:
        assert alter(target, entity, ("producer_byte_rate", FAST)).error_code == 0
    until(lambda: len(found(target, ("user", EXACT, user))) == 3, "the quotas")
    yield user, client_id
    for entity in entities:
        alter(target, entity, ("producer_byte_rate", None))


@capability
def test_every_filter_finds_what_kafka_finds(target: Target, quotas: tuple[str, str]) -> None:
    user, client_id = quotas
    u: Entity = {"user": user}
    c: Entity = {"client-id": client_id}
    expected: list[tuple[list[tuple[str, int, str | None]], bool, list[Entity]]] = [
        ([("user", EXACT, user)], False, [u, {**c, **u}, {"client-id": None, **u}]),
        ([("user", EXACT, user)], True, [u]),
        ([("client-id", EXACT, client_id)], False, [c, {**c, **u}, {**c, "user": None}]),
        ([("client-id", EXACT, client_id)], True, [c]),
        ([("user", EXACT, user), ("client-id", ANY, None)], True, [{**c, **u}, {"client-id": None, **u}]),
        ([("user", EXACT, user), ("client-id", DEFAULT, None)], False, [{"client-id": None, **u}]),
        ([("user", DEFAULT, None), ("client-id", EXACT, client_id)], False, [{**c, "user": None}]),
        ([("user", ANY, None), ("client-id", EXACT, client_id)], True, [{**c, **u}, {**c, "user": None}]),
        ([("user", EXACT, "nobody"), ("client-id", ANY, None)], False, []),
    ]
    for components, strict, entities in expected:
        assert same(found(target, *components, strict=strict)) == same(entities), (components, strict)
    everything = found(target)
    assert all(same([entity])[0] in same(everything) for entity in (u, c, {**u, **c}))


def same(entities: list[Entity]) -> list[list[tuple[str, str | None]]]:
    return sorted((sorted(entity.items(), key=str) for entity in entities), key=str)


@refusals
@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "x")], INVALID_REQUEST),
        ([("user", EXACT, "a"), ("user", EXACT, "b")], INVALID_REQUEST),
        ([("user", EXACT, None)], INVALID_REQUEST),
        ([("user", DEFAULT, "a")], INVALID_REQUEST),
        ([("user", ANY, "a")], INVALID_REQUEST),
        ([("user", 3, None)], INVALID_REQUEST),
        ([("group", EXACT, "a")], UNSUPPORTED_VERSION),
        ([("ip", EXACT, "10.0.0.1"), ("user", ANY, None)], INVALID_REQUEST),
    ],
)
def test_filters_that_kafka_refuses(target: Target, components: list[tuple[str, int, str | None]], code: int) -> None:
    answer = describe(target, *components)
    assert (answer.error_code, answer.entries) == (code, None), answer.error_message


@refusals
@pytest.mark.parametrize(
    ("entity", "ops"),
    [
        ({}, [("producer_byte_rate", 5.0)]),
        ({"group": "g"}, [("producer_byte_rate", 5.0)]),
        ({"user": ""}, [("producer_byte_rate", 5.0)]),
        ({"ip": "10.0.0.1", "user": "u"}, [("connection_creation_rate", 5.0)]),
        ({"ip": "10.0.0.1"}, [("producer_byte_rate", 5.0)]),
        ({"ip": "256.0.0.1"}, [("connection_creation_rate", 5.0)]),
        ({"ip": "10.0.0.1"}, [("connection_creation_rate", 2.0**31)]),
        ({"ip": "10.0.0.1"}, [("connection_creation_rate", 1.5)]),
        ({"user": "u"}, [("connection_creation_rate", 5.0)]),
        ({"user": "u"}, [("no_such_rate", 5.0)]),
        ({"user": "u"}, [("producer_byte_rate", 5.0), ("producer_byte_rate", 6.0)]),
        ({"user": "u"}, [("producer_byte_rate", math.inf)]),
        ({"user": "u"}, [("consumer_byte_rate", 1e19)]),
        ({"user": "u"}, [("controller_mutation_rate", -math.inf)]),
        ({"user": "u"}, [("request_percentage", 0.0)]),
    ],
)
def test_entities_and_rates_that_kafka_refuses(
    target: Target, entity: Entity, ops: list[tuple[str, float | None]]
) -> None:
    row = alter(target, entity, *ops, validate_only=True)
    assert row.error_code == INVALID_REQUEST and row.error_message


@capability
def test_removing_what_is_not_there_and_only_validating_change_nothing(target: Target) -> None:
    entity: Entity = {"user": unique("user")}
    assert alter(target, entity, ("producer_byte_rate", None)).error_code == 0
    assert alter(target, entity, ("producer_byte_rate", 5.0), validate_only=True).error_code == 0
    assert found(target, ("user", EXACT, entity["user"])) == []


def test_the_admin_clients_of_python_have_no_quotas() -> None:
    """When one of them gets calls for quotas, it belongs among these tests."""
    for admin in (AdminClient, KafkaAdminClient, AIOKafkaAdminClient):
        assert [name for name in dir(admin) if "quota" in name.lower()] == []
