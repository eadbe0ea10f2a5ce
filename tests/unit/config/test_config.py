"""Flag over environment over file over default, and one sentence for whatever is wrong."""

import pytest

from tailrace.config import Config, ConfigError, TopicConfig, describe
from tailrace.config.config import OF_COMMANDS, environment_name
from tailrace.config.definition import ConfigDef
from tailrace.config.definitions import DEFINITIONS
from tailrace.config.properties import parse

HOUR_MS = 3_600_000


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default() -> None:
    file = "min.insync.replicas=2\nnum.partitions=2\nlog.segment.bytes=2000000\n"
    environ = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_MIN_INSYNC_REPLICAS": "3"}
    config = Config.load("broker", file, environ, {"min.insync.replicas": "4"})
    assert config.min_insync_replicas == 4
    assert config.num_partitions == 3
    assert config.log_segment_bytes == 2_000_000
    assert config.message_max_bytes == 1_048_588
    assert config.get("num.partitions") == 3


def test_our_own_keys_have_their_own_prefix_in_the_environment() -> None:
    config = Config.load("gateway", None, {"TAILRACE_GATEWAY_PORT": "19092", "PATH": "/bin"})
    assert config.gateway_port == 19092
    assert config.warnings == ()


def test_an_empty_variable_is_none_where_the_key_cannot_be_empty() -> None:
    config = Config.load("gateway", None, {"TAILRACE_GATEWAY_LISTEN": "", "KAFKA_SSL_CIPHER_SUITES": ""})
    assert config.gateway_listen == ("127.0.0.1", "::1") and "gateway.listen" not in config.static
    assert config.ssl_cipher_suites == () and "ssl.cipher.suites" in config.static


def test_an_unknown_flag_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError) as refusal:
        Config.load("broker", overrides={"min.insync.replica": "2"})
    assert str(refusal.value) == "min.insync.replica from --set is not a config. Did you mean min.insync.replicas?"


def test_an_unknown_key_elsewhere_is_a_warning() -> None:
    config = Config.load(
        "broker", "# a comment\nnum.partitons=4\n", {"KAFKA_HEAP_OPTS": "-Xmx1g"}, file_name="s.properties"
    )
    assert config.warnings == (
        "num.partitons from s.properties, line 2 is not a config and is ignored. Did you mean num.partitions?",
        "The environment variable KAFKA_HEAP_OPTS is not a config and is ignored.",
    )
    assert config.num_partitions == 1


def test_the_variables_of_the_commands_are_no_mistake_of_a_service() -> None:
    config = Config.load("broker", None, dict.fromkeys(OF_COMMANDS, "x"), {})
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("source", "origin"),
    [
        ({"file": "\nmin.insync.replicas = zero"}, "server.properties, line 2"),
        ({"environ": {"KAFKA_MIN_INSYNC_REPLICAS": "zero"}}, "the environment variable KAFKA_MIN_INSYNC_REPLICAS"),
        ({"overrides": {"min.insync.replicas": "zero"}}, "--set"),
    ],
)
def test_a_bad_value_is_refused_with_key_value_range_and_origin(source: dict[str, object], origin: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Config.load("broker", **source)  # type: ignore[arg-type]
    expected = (
        f"min.insync.replicas='zero' from {origin} is not a valid value: it must be a whole number (int), [1,...]."
    )
    assert str(refusal.value) == expected


SECRETS = [definition for definition in DEFINITIONS.values() if definition.sensitive]
MARK = "hunter2"
URLS = {"metadata.url": f"postgresql://rail:{MARK}@db/tailrace", "quota.url": f"redis://:{MARK}@cache:6379/0"}


@pytest.mark.parametrize("definition", SECRETS, ids=lambda definition: definition.name)
def test_a_secret_comes_from_a_file_or_the_environment_and_is_shown_nowhere(definition: ConfigDef) -> None:
    value = URLS.get(definition.name, MARK)
    config = Config.load("controller", f"{definition.name}={value}", {environment_name(definition): value})
    assert config.get(definition.name) == value
    assert MARK not in f"{config.warnings} {config.static!r} {describe.broker(config, {}, {})}"
    with pytest.raises(ConfigError, match=environment_name(definition)) as refusal:
        Config.load("controller", overrides={definition.name: value})
    assert MARK not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{MARK}@cache",
        f"redis://me:{MARK}@cache:6379/0",
        f"rediss://me:{MARK}/more@cache",
        f"redis://cache/0?password={MARK}",
        f"unix:///run/redis.sock?db=0&password={MARK}",
    ],
)
def test_a_url_with_a_password_is_no_argument(url: str) -> None:
    with pytest.raises(ConfigError, match="every user of this machine"):
        Config.load("quota", overrides={"quota.url": url})


@pytest.mark.parametrize("url", ["redis://cache:6379/0", "redis://me@cache", "unix:///run/redis.sock?db=1"])
def test_a_url_without_a_password_is_an_argument_as_others(url: str) -> None:
    assert Config.load("quota", overrides={"quota.url": url}).quota_url == url


@pytest.mark.parametrize("url", [f"postgresql://rail:{MARK}@db:port/tailrace", f"mysql://rail:{MARK}@x:y@db/tailrace"])
def test_a_malformed_url_is_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Config.load("controller", f"metadata.url={url}")
    assert str(refusal.value).startswith("metadata.url=[hidden] from server.properties, line 1 is not a valid value")


def test_the_keys_that_are_changed_without_effect_are_named_in_one_line() -> None:
    file = "num.io.threads=9\nbackground.threads=10\nlisteners=PLAINTEXT://:9093\nnum.partitions=2\n"
    config = Config.load("broker", f"{file}sasl.jaas.config={MARK}\n")
    expected = "Set, but without effect in Tailrace yet: num.io.threads, sasl.jaas.config."
    assert config.warnings == (expected,)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("log.cleaner.min.cleanable.ratio", "0.25", 0.25),
        ("delete.topic.enable", "FALSE", False),
        ("gateway.listen", "127.0.0.1, ::1", ("127.0.0.1", "::1")),
        ("log.dirs", "", ()),
        ("compression.gzip.level", "-1", -1),
        ("controller.quorum.bootstrap.servers", "unix:/run/c0.sock,h:9", ("unix:/run/c0.sock", "h:9")),
        ("group.consumer.migration.policy", "Upgrade", "Upgrade"),
        ("node.id", " 7 ", 7),
    ],
)
def test_values_are_typed(key: str, text: str, value: object) -> None:
    assert Config.load("broker", overrides={key: text}).get(key) == value


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("node.id", "-1"),
        ("node.id", "1e3"),
        ("node.id", "\u0661"),
        ("node.id", ""),
        ("node.id", "2147483648"),
        ("offsets.topic.replication.factor", "32768"),
        ("log.retention.ms", "9223372036854775808"),
        ("delete.topic.enable", "yes"),
        ("gateway.advertise", "nobody"),
        ("gateway.port", "65536"),
        ("compression.gzip.level", "0"),
        ("log.cleanup.policy", "delete,keep"),
        ("log.cleanup.policy", "delete,"),
        ("process.roles", ""),
        ("controller.quorum.bootstrap.servers", "nowhere"),
        ("quota.unavailable", "Last"),
        ("remote.log.storage.manager.impl.prefix", ""),
    ],
)
def test_values_outside_their_range_are_refused(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=key):
        Config.load("broker", overrides={key: text})


def test_dynamic_configs_lie_over_what_was_given_at_the_start() -> None:
    config = Config.load("broker", overrides={"message.max.bytes": "900000", "num.io.threads": "8"})
    changed = config.with_dynamic({"message.max.bytes": "800000", "log.retention.ms": "5"}, {"message.max.bytes": "1"})
    assert (changed.message_max_bytes, changed.log_retention_ms) == (1, 5)
    assert "log.retention.ms" in changed.dynamic_default and "log.retention.ms" not in config.dynamic_default
    assert changed.with_dynamic({}, {}).message_max_bytes == 900_000
    assert config.message_max_bytes == 900_000


def test_a_dynamic_config_that_no_longer_parses_is_left_out_with_a_warning() -> None:
    config = Config.load("broker").with_dynamic({"message.max.bytes": "-1", "listener.name.x.y": "z"}, {})
    assert config.message_max_bytes == 1_048_588
    assert len(config.warnings) == 1 and "message.max.bytes='-1' from a dynamic config" in config.warnings[0]


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "1"}, HOUR_MS),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_retention_follows_milliseconds_over_minutes_over_hours(settings: dict[str, str], retention_ms: int) -> None:
    config = Config.load("broker", overrides=settings)
    assert TopicConfig.of({}, config).retention_ms == retention_ms
    assert TopicConfig.of({"retention.ms": "77"}, config).retention_ms == 77


def test_a_topic_follows_the_brokers_defaults_where_it_has_no_own() -> None:
    config = Config.load("broker", overrides={"log.cleanup.policy": "compact", "message.max.bytes": "5000"})
    topic = TopicConfig.of({"segment.bytes": "2000000"}, config.with_dynamic({"min.insync.replicas": "2"}, {}))
    assert topic.cleanup_policy == ("compact",)
    assert (topic.max_message_bytes, topic.segment_bytes, topic.min_insync_replicas) == (5000, 2_000_000, 2)
    assert topic == TopicConfig.of({"segment.bytes": "2000000", "min.insync.replicas": "2"}, config)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb:2\nc 3\nd\t=\t4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("  a = 1  \n\n# no\n! no\n", {"a": "1  "}),
        ("a=1,\\\n   2,\\\n   3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("# comment \\\na=1", {"a": "1"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\u00e9\\t\\n\\x", {"a": "é\t\nx"}),
        ("a==b", {"a": "=b"}),
        ("a", {"a": ""}),
        ("a=1\r\na=2\r", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("", {}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert {key: value for key, (value, _) in parse(text).items()} == expected


def test_a_malformed_escape_in_a_file_names_file_and_line() -> None:
    with pytest.raises(ConfigError, match=r"server.properties cannot be read: line 2 has a malformed"):
        Config.load("broker", "a=1\nb=\\u12")
