"""The traffic and the size of topics, against a broker on a Unix socket."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from support.broker import TOPIC_ID, batch, running, topic
from tailrace.log.log import Log
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.partitions.topics import TopicRow, Topics
from tailrace_broker.topic_metrics import MOST_TOPICS, BrokerTopicMetrics


def shown(topics: Topics, name: str, topic: str) -> float | None:
    registry = CollectorRegistry()
    BrokerTopicMetrics(registry, topics.by_name)
    return registry.get_sample_value(f"tailrace_topic_{name}", {"topic": topic})


@pytest.mark.parametrize("version", [4, 13])  # by name, and by id
async def test_what_is_appended_and_fetched_counts_for_its_topic(tmp_path: Path, version: int) -> None:
    async with running(tmp_path) as broker:
        topics, records = broker.broker.topics, batch(b"a", b"b")
        (name,) = (row.image.name for key, row in topics.by_name.items() if row.image.topic_id == TOPIC_ID)
        for partition in (0, 1):
            await broker.produce(partition, records)
        await broker.produce(9, records)  # refused
        await broker.fetch(0, 0, version=version)
        assert shown(topics, "bytes_in_total", name) == shown(topics, "size_bytes", name) == 2 * len(records)
        assert shown(topics, "messages_in_total", name) == 4
        assert shown(topics, "bytes_out_total", name) == len(records)
        assert shown(topics, "bytes_in_total", "another") is None


def test_the_page_names_so_many_topics_and_counts_the_others() -> None:
    row, registry = TopicRow(topic("t", TOPIC_ID, 0)), CollectorRegistry()
    row.partitions[0] = Partition("t", TOPIC_ID, 0, never_opened)
    BrokerTopicMetrics(registry, {b"%05d" % number: row for number in range(MOST_TOPICS + 2)})
    assert registry.get_sample_value("tailrace_topics_without_metrics") == 2
    assert registry.get_sample_value("tailrace_topic_size_bytes", {"topic": "00999"}) == 0
    assert registry.get_sample_value("tailrace_topic_size_bytes", {"topic": "01000"}) is None


def never_opened() -> Log:
    raise AssertionError("a page of metrics opens no log")
