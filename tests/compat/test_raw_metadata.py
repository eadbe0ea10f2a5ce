"""Metadata on the wire: topics that come into being by being asked for, and the address of every node."""

import pytest

from support.raw import build
from support.stage import create_topic, metadata_request, unique, wait_for_topic
from support.targets import Target
from support.waiting import until

UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST = 3, 17, 42


@pytest.mark.capability("auto-create on Metadata")
def test_asking_for_a_missing_topic_creates_it_when_allowed(target: Target) -> None:
    name = unique("topic")
    with target.raw() as connection:
        first = connection.ask(metadata_request(name, auto_create=True), 12).topics[0]
        assert (first.error_code, first.partitions) == (UNKNOWN_TOPIC_OR_PARTITION, [])

        def codes() -> list[int] | None:
            row = connection.ask(metadata_request(name), 12).topics[0]
            return None if row.error_code == UNKNOWN_TOPIC_OR_PARTITION else [row.error_code, len(row.partitions)]

        assert until(codes, "the topic") == [0, 1]
    assert wait_for_topic(target, name).topic_id


@pytest.mark.capability("auto-create on Metadata")
def test_asking_for_a_missing_topic_does_not_create_it_when_not_allowed(target: Target) -> None:
    name = unique("topic")
    with target.raw() as connection:
        for _ in range(2):
            assert connection.ask(metadata_request(name), 12).topics[0].error_code == UNKNOWN_TOPIC_OR_PARTITION
        every = connection.ask(build(3, topics=None, allow_auto_topic_creation=False), 12)
    assert name not in {row.name for row in every.topics}


@pytest.mark.capability("every node has an address of its own")
def test_every_node_is_reached_at_the_address_that_metadata_names(target: Target) -> None:
    brokers = target.ask(metadata_request("x"), 12).brokers
    assert sorted(row.node_id for row in brokers) == list(range(target.brokers))
    assert [(row.host, row.port) for row in sorted(brokers, key=lambda row: row.node_id)] == [
        (target.host, target.port + node) for node in range(target.brokers)
    ]
    clusters = {target.ask(metadata_request("x"), 12, node).cluster_id for node in range(target.brokers)}
    assert len(clusters) == 1


@pytest.mark.capability("a topic named several times is answered once")
@pytest.mark.parametrize("version", [0, 1, 9, 13])
def test_a_topic_named_several_times_is_answered_once(target: Target, version: int) -> None:
    first, second = create_topic(target).name, create_topic(target).name
    missing = unique("topic")
    request = metadata_request(first, second, first, missing, missing, "b/b", "b/b")
    if version < 4:
        request.allow_auto_topic_creation = True  # what versions before 4 always do
    answer = target.ask(request, version)
    assert sorted((row.name, row.error_code) for row in answer.topics) == sorted(
        [(first, 0), (second, 0), (missing, UNKNOWN_TOPIC_OR_PARTITION), ("b/b", INVALID_TOPIC_EXCEPTION)]
    )


@pytest.mark.capability("topics are described in pages (KIP-966)")
@pytest.mark.parametrize("cursor", [("mine", -1), ("another", 0), ("", 0), ("zz", 0)])
def test_a_cursor_must_be_at_a_partition_of_a_topic_asked_for(target: Target, cursor: tuple[str, int]) -> None:
    name, another = create_topic(target).name, create_topic(target).name
    at = {"mine": name, "another": another}.get(cursor[0], cursor[0])
    request = build(
        75,
        topics=[{"name": name}],
        response_partition_limit=10,
        cursor={"topic_name": at, "partition_index": cursor[1]},
    )
    answer = target.ask(request, 0)
    assert [(row.name, row.error_code) for row in answer.topics] == [(name, INVALID_REQUEST)]
