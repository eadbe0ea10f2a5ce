"""Apache Kafka's own tools, as an administrator runs them."""

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from support import java_tools as tools
from support.java_tools import JavaTools, Shell
from support.stage import coordinator, create_topic, unique, wait_for_topic
from support.targets import Target
from support.waiting import until
from tailrace.records.record import Record, build

pytestmark = pytest.mark.by("java")


@pytest.fixture
def shell(target: Target, jvm: JavaTools) -> Shell:
    return Shell(jvm, target.bootstrap)


@pytest.mark.capability("create, list, describe, delete topics")
def test_topic_command_creates_describes_alters_and_deletes(target: Target, shell: Shell, topic_name: str) -> None:
    named = ("--topic", topic_name)
    created = ("--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=60000")
    assert f"Created topic {topic_name}" in shell.out(tools.TOPICS, "--create", *named, *created)
    wait_for_topic(target, topic_name)
    assert topic_name in shell.out(tools.TOPICS, "--list").split()
    described = shell.out(tools.TOPICS, "--describe", *named)
    assert "PartitionCount: 3\tReplicationFactor: 1" in described
    assert "retention.ms=60000" in described
    again = shell.run(tools.TOPICS, "--create", *named)
    assert (again.code, "already exists" in again.out) == (1, True)
    shell.out(tools.TOPICS, "--alter", *named, "--partitions", "4")
    wait_for_topic(target, topic_name, partitions=4)
    assert "PartitionCount: 4" in shell.out(tools.TOPICS, "--describe", *named)
    shell.out(tools.TOPICS, "--delete", *named)
    until(lambda: shell.run(tools.TOPICS, "--describe", *named).code == 1, "the topic is gone")


@pytest.mark.capability("idempotent producer")
def test_console_producer_with_its_default_idempotence_and_console_consumer(target: Target, shell: Shell) -> None:
    topic = create_topic(target)
    properties = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    lines = [f"key-{n}:value-{n}" for n in range(100)]
    shell.out(tools.PRODUCER, "--topic", topic.name, *properties, stdin="\n".join(lines) + "\n")
    limits = ("--from-beginning", "--max-messages", "100", "--timeout-ms", "40000")
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
    read = shell.out(tools.CONSUMER, "--topic", topic.name, *limits, *shown)
    assert [line for line in read.splitlines() if line.startswith("key-")] == lines


@pytest.mark.capability("list and describe groups")
def test_consumer_group_command_sees_resets_and_deletes_a_group(target: Target, shell: Shell, group: str) -> None:
    topic = create_topic(target)
    coordinator(target, group)
    shell.out(tools.PRODUCER, "--topic", topic.name, stdin="a\nb\nc\n")
    limits = ("--from-beginning", "--max-messages", "3", "--timeout-ms", "40000")
    shell.out(tools.CONSUMER, "--topic", topic.name, "--group", group, *limits)
    assert group in shell.out(tools.GROUPS, "--list").split()
    assert lag(shell, group) == [topic.name, "0", "3", "3", "0"]
    named = ("--group", group, "--topic", topic.name)
    shell.out(tools.GROUPS, "--reset-offsets", *named, "--to-offset", "1", "--execute")
    assert lag(shell, group) == [topic.name, "0", "1", "3", "2"]
    assert "Successful" in shell.out(tools.GROUPS, "--delete-offsets", *named)
    assert "was successful" in shell.out(tools.GROUPS, "--delete", "--group", group)
    assert "not found" in shell.run(tools.GROUPS, "--describe", "--group", group).out


def lag(shell: Shell, group: str) -> list[str]:
    rows = shell.out(tools.GROUPS, "--describe", "--group", group).splitlines()
    (row,) = [row.split() for row in rows if row.startswith(group)]
    return row[1:6]


@pytest.mark.capability("configs of a topic: described in full, altered, with their source")
def test_config_command_alters_and_describes_a_topic(target: Target, shell: Shell) -> None:
    topic = create_topic(target)
    named = ("--entity-type", "topics", "--entity-name", topic.name)
    shell.out(tools.CONFIGS, "--alter", *named, "--add-config", "retention.ms=1234,max.message.bytes=5000")
    row = "retention.ms=1234 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1234}"
    until(lambda: row in shell.out(tools.CONFIGS, "--describe", *named), "the topic's own retention")
    shell.out(tools.CONFIGS, "--alter", *named, "--delete-config", "retention.ms")
    default = "retention.ms=604800000 sensitive=false synonyms={}"
    describe_all = functools.partial(shell.out, tools.CONFIGS, "--describe", "--all", *named)
    everything = until(lambda: text if default in (text := describe_all()) else None, "the default retention")
    sources = "{DYNAMIC_TOPIC_CONFIG:max.message.bytes=5000, DEFAULT_CONFIG:message.max.bytes=1048588}"
    assert f"max.message.bytes=5000 sensitive=false synonyms={sources}" in everything


@pytest.mark.capability("configs of a broker: described in full, with their source")
def test_config_command_describes_and_alters_every_broker(target: Target, shell: Shell) -> None:
    for node in range(target.brokers):
        named = ("--entity-type", "brokers", "--entity-name", str(node))
        described = shell.out(tools.CONFIGS, "--describe", "--all", *named)
        assert "log.retention.hours=168 sensitive=false synonyms={DEFAULT_CONFIG:log.retention.hours=168}" in described
        shell.out(tools.CONFIGS, "--alter", *named, "--add-config", "log.cleaner.threads=2")
        until(functools.partial(has_two_cleaner_threads, shell, *named), f"log.cleaner.threads of {node}")
        shell.out(tools.CONFIGS, "--alter", *named, "--delete-config", "log.cleaner.threads")


def has_two_cleaner_threads(shell: Shell, *named: str) -> bool:
    row = "log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2"
    return row in shell.out(tools.CONFIGS, "--describe", *named)


@pytest.mark.capability("log levels are described and altered while it runs (KIP-412)")
def test_config_command_alters_a_brokers_log_levels(target: Target, shell: Shell) -> None:
    named = ("--entity-type", "broker-loggers", "--entity-name", "0")
    before = re.search(r"root=(\w+)", shell.out(tools.CONFIGS, "--describe", *named))
    assert before
    for level in ("FATAL", before[1]):
        told = shell.out(tools.CONFIGS, "--alter", *named, "--add-config", f"root={level}")
        assert "Completed updating config for broker-logger 0." in told
        assert f"root={level} " in shell.out(tools.CONFIGS, "--describe", *named)


@pytest.mark.capability("client quotas are set and described")
def test_config_command_sets_a_client_quota(target: Target, shell: Shell) -> None:
    client_id = unique("client")
    named = ("--entity-type", "clients", "--entity-name", client_id)
    shell.out(tools.CONFIGS, "--alter", *named, "--add-config", "producer_byte_rate=1000000")
    described = f"Quota configs for client-id '{client_id}' are producer_byte_rate=1000000.0"
    until(lambda: described in shell.out(tools.CONFIGS, "--describe", *named), "the quota")
    shell.out(tools.CONFIGS, "--alter", *named, "--delete-config", "producer_byte_rate")
    until(lambda: "producer_byte_rate" not in shell.out(tools.CONFIGS, "--describe", *named), "no quota")


@pytest.mark.capability("offsets of many partitions on all nodes")
def test_get_offset_shell_names_every_partition(target: Target, shell: Shell) -> None:
    topic = create_topic(target, partitions=6)
    shell.out(tools.PRODUCER, "--topic", topic.name, stdin="a\nb\nc\n")
    rows = [row.split(":") for row in shell.out(tools.OFFSETS, "--topic", topic.name).split()]
    assert [(row[0], int(row[1])) for row in rows] == [(topic.name, n) for n in range(6)]
    assert sum(int(row[2]) for row in rows) == 3


@pytest.mark.capability("DescribeLogDirs per broker")
def test_log_dirs_command_names_every_broker(target: Target, shell: Shell) -> None:
    topic = create_topic(target, partitions=3)
    written = bytes(build([Record(timestamp=1, value=b"v" * 100)]))
    assert topic.produce(written, partition=1).error_code == 0
    asked, received, described = shell.out(tools.LOG_DIRS, "--describe", "--topic-list", topic.name).splitlines()
    assert asked == "Querying brokers for log directories information"
    assert received == f"Received log directory information from brokers {','.join(map(str, range(target.brokers)))}"
    told: Any = json.loads(described)
    assert sorted(told) == ["brokers", "version"] and told["version"] == 1
    assert [sorted(broker) for broker in told["brokers"]] == [["broker", "logDirs"]] * target.brokers
    assert sorted(broker["broker"] for broker in told["brokers"]) == list(range(target.brokers))
    dirs = [log_dir for broker in told["brokers"] for log_dir in broker["logDirs"]]
    assert [(sorted(found), found["error"]) for found in dirs] == [(["error", "logDir", "partitions"], None)] * len(
        dirs
    )
    assert all(Path(found["logDir"]).is_relative_to(target.folder) for found in dirs)
    size = {f"{topic.name}-{n}": len(written) if n == 1 else 0 for n in range(3)}
    held = [row for found in dirs for row in found["partitions"]]
    assert sorted(held, key=lambda row: row["partition"]) == [
        {"partition": name, "size": size[name], "offsetLag": 0, "isFuture": False} for name in size
    ]
    refused = shell.run(tools.LOG_DIRS, "--describe", "--broker-list", "99")
    assert refused.code == 1 and "The given brokers do not exist from --broker-list: 99" in refused.err + refused.out


@pytest.mark.capability("the metadata quorum is described (KIP-595)")
def test_quorum_command_tells_who_leads_and_how_far_the_others_are(target: Target, shell: Shell) -> None:
    status = dict(row.split(":", 1) for row in shell.out(tools.QUORUM, "describe", "--status").splitlines())
    assert status["LeaderId"].strip() == "0"
    assert int(status["LeaderEpoch"]) >= 1
    assert int(status["HighWatermark"]) > 1
    assert [voter["id"] for voter in json.loads(status["CurrentVoters"])] == [0]
    rows = [row.split() for row in shell.out(tools.QUORUM, "describe", "--replication").splitlines()]
    columns, (leader, *others) = rows[0], [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]
    assert columns[:4] == ["NodeId", "DirectoryId", "LogEndOffset", "Lag"]
    assert (leader["NodeId"], leader["Lag"], rows[1][-1]) == ("0", "0", "Leader")
    followers = [] if target.is_kafka else [str(node) for node in range(target.brokers)]
    assert [other["NodeId"] for other in others] == followers
    assert all(row[-1] == "Observer" for row in rows[2:])


@pytest.mark.capability("load: ProducerPerformance, ConsumerPerformance")
def test_the_performance_tools_move_ten_thousand_records(target: Target, shell: Shell) -> None:
    topic = create_topic(target, partitions=3)
    load = ("--topic", topic.name, "--num-records", "10000", "--record-size", "500", "--throughput", "-1")
    assert "10000 records sent" in shell.out(tools.PRODUCER_PERFORMANCE, *load)
    limits = ("--num-records", "10000", "--timeout", "40000")
    report = shell.out(tools.CONSUMER_PERFORMANCE, "--topic", topic.name, *limits)
    assert report.splitlines()[-1].split(",")[4].strip() == "10000"
