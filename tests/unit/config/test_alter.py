"""Incremental alter and describe; every sentence here was heard from Apache Kafka 4.3.1."""

import pytest

from tailrace.config import TOPIC_DEFINITIONS, Config, describe
from tailrace.config.alter import (
    DEFINITIONS_OF,
    AlterConfigOp,
    Operation,
    apply,
    validate_broker,
    validate_client_metrics,
    validate_group,
)
from tailrace.config.definition import ConfigScope
from tailrace.config.topic import validate
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.resources import ConfigSource

SET, DELETE, APPEND, SUBTRACT = Operation
CONFIG = Config.load("broker")
THROTTLED = "leader.replication.throttled.replicas"


def alter(current: dict[str, str], *changes: tuple[str, int, str | None]) -> dict[str, str]:
    return apply(current, [AlterConfigOp(*change) for change in changes], TOPIC_DEFINITIONS)


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ({}, ("retention.ms", SET, "5"), {"retention.ms": "5"}),
        ({"retention.ms": "5"}, ("retention.ms", SET, "6"), {"retention.ms": "6"}),
        ({"retention.ms": "5"}, ("retention.ms", DELETE, None), {}),
        ({}, ("retention.ms", DELETE, None), {}),
        ({}, ("cleanup.policy", APPEND, "compact"), {"cleanup.policy": "delete,compact"}),
        ({"cleanup.policy": "compact"}, ("cleanup.policy", APPEND, "compact"), {"cleanup.policy": "compact"}),
        ({"cleanup.policy": "compact"}, ("cleanup.policy", SUBTRACT, "compact"), {"cleanup.policy": ""}),
        ({"cleanup.policy": ""}, ("cleanup.policy", APPEND, "compact"), {"cleanup.policy": "compact"}),
        ({"cleanup.policy": "compact"}, ("cleanup.policy", SUBTRACT, "delete"), {"cleanup.policy": "compact"}),
        ({}, ("cleanup.policy", SUBTRACT, "nowhere"), {"cleanup.policy": "delete"}),
        ({THROTTLED: "0:0"}, (THROTTLED, APPEND, "0:1,0:0,0:1"), {THROTTLED: "0:0,0:1"}),
        ({THROTTLED: "0:0,0:1,0:0,0:0"}, (THROTTLED, SUBTRACT, "0:0,0:0,0:2"), {THROTTLED: "0:1,0:0"}),
    ],
)
def test_operations_change_one_key(
    before: dict[str, str], change: tuple[str, int, str | None], after: dict[str, str]
) -> None:
    assert alter(before, change) == after


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ([("a", SET, "1"), ("a", DELETE, None)], ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST, "Null value not supported for : retention.ms"),
        (
            [("retention.ms", APPEND, "5")],
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        ([("retention.ms", 9, "5")], ErrorCode.INVALID_REQUEST, "Unknown operation type 9."),
    ],
)
def test_operations_that_cannot_be_are_refused(
    changes: list[tuple[str, int, str | None]], code: ErrorCode, message: str
) -> None:
    with pytest.raises(ApiError) as refusal:
        alter({}, *changes)
    assert (refusal.value.code, refusal.value.message) == (code, message)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"retention.ms": "-5"}, "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
        ({"retention.ms": "abc"}, "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ({"nope": "abc"}, "Unknown topic config name: nope"),
        ({"cleanup.policy": "delete,"}, "Configuration 'cleanup.policy' values must not be empty."),
        (
            {"cleanup.policy": "foo"},
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            {"segment.bytes": "99999999999"},
            "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT",
        ),
        (
            {"min.cleanable.dirty.ratio": "2"},
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            {"preallocate": "x"},
            "Invalid value x for configuration preallocate: Expected value to be either true or false",
        ),
        (
            {"compression.gzip.level": "77"},
            "Invalid value 77 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            {"leader.replication.throttled.replicas": "x"},
            "Invalid value [x] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following "
            "format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (
            {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "50"},
            "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (50)",
        ),
        (
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_a_topics_bad_config_is_refused_in_kafkas_words(configs: dict[str, str], message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        validate(configs, CONFIG)
    assert (refusal.value.code, refusal.value.message) == (ErrorCode.INVALID_CONFIG, message)


@pytest.mark.parametrize(
    "configs",
    [
        {"cleanup.policy": "delete,delete"},
        {"cleanup.policy": ""},
        {"leader.replication.throttled.replicas": "0:0, 1:1"},
    ],
)
def test_a_topics_odd_but_good_config_is_taken(configs: dict[str, str]) -> None:
    validate(configs, CONFIG)


@pytest.mark.parametrize(
    ("broker", "configs", "message"),
    [
        ("0", {"num.partitions": "2"}, "Cannot update these configs dynamically: [num.partitions]"),
        (
            "",
            {"listeners": "PLAINTEXT://:1"},
            "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
        ),
        (
            "0",
            {"ssl.keystore.password": "s"},
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "[ssl.keystore.password]",
        ),
        ("", {"num.io.threads": "0"}, "Invalid value 0 for configuration num.io.threads: Value must be at least 1"),
        (
            "0",
            {"leader.replication.throttled.rate": "x"},
            "Invalid value x for configuration leader.replication.throttled.rate: Not a number of type LONG",
        ),
    ],
)
def test_a_brokers_bad_config_is_refused_in_kafkas_words(broker: str, configs: dict[str, str], message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        validate_broker(configs, list(configs), broker)
    assert (refusal.value.code, refusal.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_a_brokers_unknown_config_is_kept_and_a_removed_one_is_not_checked() -> None:
    validate_broker({"wat.is.this": "2", "log.cleaner.threads": "2"}, ["wat.is.this", "log.cleaner.threads"], "0")
    validate_broker({}, ["num.partitions"], "0")


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"wat": "1"}, "Unknown group config name: wat"),
        (
            {"consumer.session.timeout.ms": "1000"},
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {"share.session.timeout.ms": "100000"},
            "share.session.timeout.ms must be less than or equal to group.share.max.session.timeout.ms",
        ),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            {"share.record.lock.duration.ms": "1"},
            "Invalid value 1 for configuration share.record.lock.duration.ms: Value must be at least 1000",
        ),
        (
            {"share.auto.offset.reset": "bogus"},
            "Invalid value bogus for configuration share.auto.offset.reset: Invalid value `bogus` for configuration "
            "share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format "
            "'by_duration:<PnDTnHnMn.nS>'.",
        ),
    ],
)
def test_a_groups_bad_config_is_refused_in_kafkas_words(configs: dict[str, str], message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        validate_group(configs, CONFIG)
    assert (refusal.value.code, refusal.value.message) == (ErrorCode.INVALID_CONFIG, message)


def test_a_group_may_start_a_share_some_time_ago() -> None:
    validate_group({"share.auto.offset.reset": "by_duration:PT2H30M", "consumer.session.timeout.ms": "46000"}, CONFIG)


@pytest.mark.parametrize(
    ("configs", "code", "message"),
    [
        ({"wat": "4"}, ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: wat"),
        (
            {"interval.ms": "4"},
            ErrorCode.INVALID_REQUEST,
            "Invalid value 4 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        ({"match": "client_id=[a"}, ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id=[a"),
        ({"match": "foo=a.*"}, ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: foo=a.*"),
    ],
)
def test_a_bad_metrics_subscription_is_refused_in_kafkas_words(
    configs: dict[str, str], code: ErrorCode, message: str
) -> None:
    with pytest.raises(ApiError) as refusal:
        validate_client_metrics(configs)
    assert (refusal.value.code, refusal.value.message) == (code, message)


def test_a_good_metrics_subscription_is_taken() -> None:
    validate_client_metrics({"interval.ms": "400", "match": "client_id=a.*", "metrics": "*"})


# The cases below were run against Apache Kafka with log.retention.hours=1, log.roll.ms=7777777,
# message.max.bytes=900000, log.flush.scheduler.interval.ms=99999 and the same dynamic configs.
STATIC = Config.load(
    "broker",
    overrides={
        "log.retention.hours": "1",
        "log.roll.ms": "7777777",
        "message.max.bytes": "900000",
        "log.flush.scheduler.interval.ms": "99999",
    },
    environ={"KAFKA_SASL_JAAS_CONFIG": "x"},
)
DEFAULT = {"log.retention.ms": "3333333", "message.max.bytes": "800000", "log.cleaner.threads": "2"}
OWN = {"message.max.bytes": "700000", "leader.replication.throttled.rate": "9", "wat.is.this": "2"}


def summary(entry: describe.ConfigEntry) -> tuple[str | None, int, list[tuple[str, str | None, int]]]:
    return entry.value, int(entry.source), [(s.name, s.value, int(s.source)) for s in entry.synonyms]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("flush.ms", ("99999", 5, [])),
        ("max.message.bytes", ("900000", 4, [("message.max.bytes", "900000", 4), ("message.max.bytes", "1048588", 5)])),
        ("segment.ms", ("7777777", 4, [("log.roll.ms", "7777777", 4), ("log.roll.hours", "168", 5)])),
        ("retention.ms", ("3600000", 5, [])),
        ("cleanup.policy", ("compact", 1, [("cleanup.policy", "compact", 1), ("log.cleanup.policy", "delete", 5)])),
    ],
)
def test_a_topics_config_tells_every_place_that_gives_it_a_value(
    key: str, expected: tuple[str, int, list[tuple[str, str, int]]]
) -> None:
    entries = {entry.name: entry for entry in describe.topic({"cleanup.policy": "compact"}, STATIC)}
    assert summary(entries[key]) == expected


def test_dynamic_configs_come_before_static_ones() -> None:
    entries = {
        entry.name: entry for entry in describe.topic({"retention.ms": "123"}, STATIC.with_dynamic(DEFAULT, OWN))
    }
    assert summary(entries["retention.ms"]) == (
        "123",
        1,
        [
            ("retention.ms", "123", 1),
            ("log.retention.ms", "3333333", 3),
            ("log.retention.hours", "1", 4),
            ("log.retention.hours", "168", 5),
        ],
    )
    assert summary(entries["max.message.bytes"]) == (
        "700000",
        2,
        [
            ("message.max.bytes", "700000", 2),
            ("message.max.bytes", "800000", 3),
            ("message.max.bytes", "900000", 4),
            ("message.max.bytes", "1048588", 5),
        ],
    )


def test_a_broker_hides_secrets_and_keys_nobody_knows() -> None:
    entries = {entry.name: entry for entry in describe.broker(STATIC, DEFAULT, OWN)}
    assert summary(entries["sasl.jaas.config"]) == (None, 4, [("sasl.jaas.config", None, 4)])
    assert entries["sasl.jaas.config"].is_sensitive
    assert summary(entries["wat.is.this"]) == (None, 2, [("wat.is.this", None, 2)])
    assert entries["wat.is.this"].is_sensitive and entries["wat.is.this"].read_only
    assert summary(entries["leader.replication.throttled.rate"]) == (
        "9",
        2,
        [("leader.replication.throttled.rate", "9", 2)],
    )
    assert summary(entries["log.cleaner.threads"]) == (
        "2",
        3,
        [("log.cleaner.threads", "2", 3), ("log.cleaner.threads", "1", 5)],
    )


def test_the_cluster_wide_default_shows_only_what_is_set() -> None:
    entries = describe.cluster_default(DEFAULT)
    assert [entry.name for entry in entries] == sorted(DEFAULT)
    assert {entry.source for entry in entries} == {ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG}


def test_a_groups_own_config_comes_before_the_brokers() -> None:
    entries = {entry.name: entry for entry in describe.group({"consumer.session.timeout.ms": "46000"}, CONFIG)}
    assert summary(entries["consumer.session.timeout.ms"]) == (
        "46000",
        8,
        [("consumer.session.timeout.ms", "46000", 8), ("group.consumer.session.timeout.ms", "45000", 5)],
    )


def test_apply_finds_the_table_for_every_kind_of_resource() -> None:
    change = [AlterConfigOp("log.cleanup.policy", APPEND, "compact")]
    assert apply({}, change, DEFINITIONS_OF[ConfigScope.BROKER]) == {"log.cleanup.policy": "delete,compact"}
