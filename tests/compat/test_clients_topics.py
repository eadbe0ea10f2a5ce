"""Topics and configs, by every Python client."""

import pytest

from support.clients import Client, Record, Refused
from support.raw import build
from support.stage import metadata_request, wait_for_topic
from support.targets import Target
from support.waiting import until

UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS = 3, 17, 36
INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_CONFIG = 37, 38, 40
DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 4, 5


@pytest.mark.capability("create, list, describe, delete topics")
def test_a_topic_is_created_listed_described_and_deleted(target: Target, client: Client, topic_name: str) -> None:
    client.create_topic(topic_name, partitions=3)
    wait_for_topic(target, topic_name)
    assert topic_name in client.list_topics()
    assert client.partition_count(topic_name) == 3
    client.delete_topic(topic_name)
    until(lambda: topic_name not in client.list_topics(), "the topic is gone")


@pytest.mark.capability("refusals of CreateTopics and DeleteTopics")
def test_a_topic_that_exists_cannot_be_created(client: Client, topic_name: str) -> None:
    client.create_topic(topic_name)
    with pytest.raises(Refused) as refused:
        client.create_topic(topic_name)
    assert refused.value.code == TOPIC_ALREADY_EXISTS


@pytest.mark.capability("refusals of CreateTopics and DeleteTopics")
@pytest.mark.parametrize(
    ("what", "code"),
    [
        ({"name": "not a name"}, INVALID_TOPIC_EXCEPTION),
        ({"replication_factor": 9}, INVALID_REPLICATION_FACTOR),
        ({"configs": {"no.such.config": "1"}}, INVALID_CONFIG),
        ({"configs": {"retention.ms": "soon"}}, INVALID_CONFIG),
    ],
    ids=["name", "replication factor", "unknown config", "config value"],
)
def test_a_bad_topic_is_refused(client: Client, topic_name: str, what: dict[str, object], code: int) -> None:
    arguments: dict[str, object] = {"name": topic_name, **what}
    with pytest.raises(Refused) as refused:
        client.create_topic(**arguments)  # type: ignore[arg-type]
    assert refused.value.code == code


TOO_MANY = (44, "Excessively large number of partitions per request.")
TOO_LARGE = (44, "Unable to perform excessively large batch operation.")


@pytest.mark.capability("refusals of CreateTopics and DeleteTopics")
@pytest.mark.parametrize(
    ("partitions", "refusal"),
    [([10_001], TOO_MANY), ([5_001, 5_001], TOO_MANY), ([10_000], TOO_LARGE), ([1] * 5_001, TOO_LARGE)],
    ids=["one topic", "two topics", "one record too many", "many topics"],
)
def test_more_than_ten_thousand_records_are_refused(
    target: Target, topic_name: str, partitions: list[int], refusal: tuple[int, str]
) -> None:
    topics = [
        {"name": f"{topic_name}{n}", "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
        for n, count in enumerate(partitions)
    ]
    answer = target.ask(build(19, topics=topics, timeout_ms=10_000, validate_only=True), 7)
    assert {(row.error_code, row.error_message) for row in answer.topics} == {refusal}
    assert len(answer.topics) == len(partitions)


@pytest.mark.capability("as many replicas as asked for")
@pytest.mark.only("tailrace3")
def test_a_topic_gets_the_replicas_that_were_asked_for(target: Target, client: Client, topic_name: str) -> None:
    client.create_topic(topic_name, replication_factor=3)
    wait_for_topic(target, topic_name)
    (row,) = target.ask(metadata_request(topic_name), 12).topics[0].partitions
    assert sorted(row.replica_nodes) == sorted(row.isr_nodes) == [0, 1, 2]
    assert client.produce(topic_name, [Record(b"v", partition=0)]) == [(0, 0)]


@pytest.mark.capability("add partitions")
def test_partitions_are_added_and_written_to(target: Target, client: Client, topic_name: str) -> None:
    client.create_topic(topic_name)
    wait_for_topic(target, topic_name)
    client.add_partitions(topic_name, 4)
    until(lambda: client.partition_count(topic_name) == 4, "four partitions")
    wait_for_topic(target, topic_name, partitions=4)
    assert client.produce(topic_name, [Record(b"v", partition=3)]) == [(3, 0)]
    with pytest.raises(Refused) as refused:
        client.add_partitions(topic_name, 2)
    assert refused.value.code == INVALID_PARTITIONS


@pytest.mark.only("tailrace1", "tailrace1r", "tailrace3h")
def test_a_client_reads_what_it_wrote_at_once(client: Client, topic_name: str) -> None:
    for number in range(10):
        client.create_topic(f"{topic_name}{number}")
        assert f"{topic_name}{number}" in client.list_topics()
        client.add_partitions(f"{topic_name}{number}", 3)
        assert client.partition_count(f"{topic_name}{number}") == 3


@pytest.mark.capability("configs of a topic: described in full, altered, with their source")
def test_topic_configs_are_described_and_altered(client: Client, topic_name: str) -> None:
    client.create_topic(topic_name, configs={"retention.ms": "60000"})
    described = until(lambda: described_topic(client, topic_name), "the topic's configs")
    assert described["retention.ms"] == ("60000", DYNAMIC_TOPIC_CONFIG)
    assert described["cleanup.policy"] == ("delete", DEFAULT_CONFIG)
    assert {"segment.bytes", "max.message.bytes", "min.insync.replicas", "compression.type"} <= set(described)
    client.alter_topic_config(topic_name, {"retention.ms": "70000"})
    changed = ("70000", DYNAMIC_TOPIC_CONFIG)
    until(lambda: client.describe_config("topic", topic_name)["retention.ms"] == changed, "the new value")


def described_topic(client: Client, name: str) -> dict[str, tuple[str | None, int]] | None:
    try:
        return client.describe_config("topic", name)
    except Refused as refused:
        assert refused.code == UNKNOWN_TOPIC_OR_PARTITION
        return None


@pytest.mark.capability("configs of a broker: described in full, with their source")
def test_broker_configs_are_described(target: Target, client: Client) -> None:
    for node in range(target.brokers):
        described = client.describe_config("broker", str(node))
        assert described["log.retention.hours"] == ("168", DEFAULT_CONFIG)
        assert described["node.id"][0] == str(node)
        assert described["group.min.session.timeout.ms"] == ("1000", STATIC_BROKER_CONFIG)


@pytest.mark.capability("a bad config is refused")
def test_a_bad_config_value_is_refused(client: Client, topic_name: str) -> None:
    client.create_topic(topic_name)
    with pytest.raises(Refused) as refused:
        client.alter_topic_config(topic_name, {"retention.ms": "soon"})
    assert refused.value.code == INVALID_CONFIG


@pytest.mark.capability("auto-create on Metadata")
def test_producing_to_a_missing_topic_creates_it(client: Client, topic_name: str) -> None:
    assert client.produce(topic_name, [Record(b"first")], partitioned=False) == [(0, 0)]
    until(lambda: topic_name in client.list_topics(), "the topic at the node that the client asks")
