"""Requests about many topics: what is too much for one, and what an answer has room for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from support.metadata import after, cluster, topic
from tailrace.config import Config
from tailrace.config.definitions import TOPIC_DEFINITIONS
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import ConfigRecord, PartitionRecord, TopicRecord
from tailrace.net.context import Context
from tailrace.net.limits import answer_budget
from tailrace.wire.messages import (
    AlterClientQuotasRequest,
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)
from tailrace_controller.decide import (
    alter_configs,
    client_quotas,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    elect_leaders,
    reassignments,
)
from tailrace_controller.handlers import describe_configs as describe_configs_handler

CONFIG = Config.load("controller")
LINEAR = 1.15
Asked = CreateTopicsRequest.CreatableTopic
Altered = IncrementalAlterConfigsRequest.AlterConfigsResource
Described = DescribeConfigsRequest.DescribeConfigsResource
More = CreatePartitionsRequest.CreatePartitionsTopic


def named(many: int, separator: str = "-") -> list[str]:
    return [f"topic{separator}{number:04}" for number in range(many)]


def holding(names: list[str]) -> MetadataImage:
    records = [record for number, name in enumerate(names) for record in topic(name, number, [0])]
    return after(cluster(3), *records)


def create(image: MetadataImage, names: list[str], configs: dict[str, str] | None = None) -> Callable[[], Any]:
    rows = [Asked.CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()]
    topics = [Asked(name=name, num_partitions=2, replication_factor=3, assignments=[], configs=rows) for name in names]
    request = CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=False)
    ids = iter(range(10_000))
    return lambda: create_topics.create(image, request, CONFIG, lambda: UUID(int=next(ids)))


def test_a_quota_entity_of_very_many_parts_is_refused_for_its_first_unknown_one() -> None:
    row = AlterClientQuotasRequest.EntryData
    parts = [row.EntityData(entity_type=f"kind-{number}", entity_name="n") for number in range(1_000)]
    request = AlterClientQuotasRequest(entries=[row(entity=parts, ops=[])], validate_only=True)
    (answered,) = client_quotas.alter(cluster(3), request).reply.entries
    assert answered.error_code == ErrorCode.INVALID_REQUEST
    assert answered.error_message == "Unhandled client quota entity type: kind-0"
    assert len(answered.entity) == 1_000


def describing(image: MetadataImage, kind: int, names: list[str]) -> Callable[[], Any]:
    rows = [Described(resource_type=kind, resource_name=name, configuration_keys=None) for name in names]
    request = DescribeConfigsRequest(resources=rows, include_synonyms=True, include_documentation=True)
    return lambda: describe_configs.describe_configs(image, request, CONFIG).reply.results


def test_a_topic_is_described_with_its_own_configs_among_others_that_have_none() -> None:
    image = after(holding(named(100)), ConfigRecord(2, named(100)[7], "retention.ms", "7"))
    found = [
        {row.name: (row.value, row.config_source) for row in one.configs} for one in describing(image, 2, named(9))()
    ]
    assert [one["retention.ms"] for one in found] == [("604800000", 5)] * 7 + [("7", 1), ("604800000", 5)]
    assert {len(one) for one in found} == {len(TOPIC_DEFINITIONS)}


# -- what is too much for one request: seen at Apache Kafka 4.3.1 with requests of these sizes, three by reading


TOO_MANY = "Excessively large number of partitions per request."
TOO_LARGE = "Unable to perform excessively large batch operation."


def refusal(work: Callable[[], Any]) -> str | None:
    with pytest.raises(ApiError) as refused:
        work()
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    return refused.value.message


def creating(partitions: list[int], configs: dict[str, str] | None = None) -> Callable[[], Any]:
    rows = [Asked.CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()]
    topics = [
        Asked(name=f"t{number}", num_partitions=count, replication_factor=1, assignments=[], configs=rows)
        for number, count in enumerate(partitions)
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=True)
    ids = iter(range(20_000))
    return lambda: create_topics.create(cluster(1), request, CONFIG, lambda: UUID(int=next(ids)))


def test_topics_of_more_than_ten_thousand_partitions_are_not_created_at_once() -> None:
    assert refusal(creating([10_001])) == TOO_MANY
    assert refusal(creating([5_001, 5_001])) == TOO_MANY
    assert refusal(creating([-1] * 10_001)) == TOO_MANY


def test_topics_that_take_more_than_ten_thousand_records_are_not_created_at_once() -> None:
    assert refusal(creating([10_000])) == TOO_LARGE
    assert refusal(creating([1] * 5_001)) == TOO_LARGE
    assert refusal(creating([1] * 2_001, {"retention.ms": "1", "flush.ms": "1", "segment.ms": "1"})) == TOO_LARGE
    assert [topic.error_code for topic in creating([9_999])().reply.topics] == [0]


def test_topics_get_no_more_than_ten_thousand_partitions_at_once() -> None:
    topics = [More(name=name, count=5_002, assignments=None) for name in named(2)]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=1000, validate_only=True)
    rows = create_partitions.create(holding(named(2)), request).reply.results
    assert [(row.error_code, row.error_message) for row in rows] == [(0, None), (ErrorCode.POLICY_VIOLATION, TOO_MANY)]


def configuring(groups: int) -> Callable[[], Any]:
    rows = [Altered.AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value="45000")]
    resources = [Altered(resource_type=32, resource_name=f"g{number}", configs=rows) for number in range(groups)]
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    return lambda: alter_configs.incremental(cluster(1), request, CONFIG)


def test_no_more_than_ten_thousand_configs_are_changed_at_once() -> None:
    assert refusal(configuring(10_001)) == TOO_LARGE
    assert len(configuring(10_000)().records) == 10_000


def test_no_more_than_ten_thousand_quotas_are_changed_at_once() -> None:
    row = AlterClientQuotasRequest.EntryData
    entries = [
        row(
            entity=[row.EntityData(entity_type="client-id", entity_name=f"c{number}")],
            ops=[row.OpData(key="producer_byte_rate", value=1.0, remove=False)],
        )
        for number in range(10_001)
    ]
    request = AlterClientQuotasRequest(entries=entries, validate_only=False)
    assert refusal(lambda: client_quotas.alter(cluster(1), request)) == TOO_LARGE


SO_MANY = 10_001


def holding_many(leader: int = 0) -> MetadataImage:
    """One topic whose partitions have two replicas, led by the one or the other."""
    topic_id = UUID(int=77)
    rows = [PartitionRecord(index, topic_id, (0, 1), (0, 1), leader) for index in range(SO_MANY)]
    return after(cluster(3), TopicRecord("t", topic_id), *rows)


def test_no_more_than_ten_thousand_reassignments_begin_with_one_request() -> None:
    wanted = AlterPartitionReassignmentsRequest.ReassignableTopic
    rows = [wanted.ReassignablePartition(partition_index=index, replicas=[1, 2]) for index in range(SO_MANY)]
    request = AlterPartitionReassignmentsRequest(topics=[wanted(name="t", partitions=rows)], timeout_ms=1000)
    effects = reassignments.alter(holding_many(), request, 1, CONFIG)
    *begun, last = effects.reply.responses[0].partitions
    assert len(effects.records) == 10_000 and not any(row.error_code for row in begun)
    assert (last.error_code, last.error_message) == (ErrorCode.POLICY_VIOLATION, TOO_LARGE)


def test_no_more_than_ten_thousand_leaders_change_with_one_request() -> None:
    request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=1000)
    assert refusal(lambda: elect_leaders.elect(holding_many(leader=1), request, CONFIG)) == TOO_LARGE
    assert elect_leaders.elect(holding_many(), request, CONFIG).records == ()


def test_no_more_than_ten_thousand_topics_are_deleted_with_one_request() -> None:
    image = after(cluster(1), *(TopicRecord(str(number), UUID(int=number + 1)) for number in range(SO_MANY)))
    topics = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in image.topics]
    effects = delete_topics.delete(image, DeleteTopicsRequest(topics=topics, timeout_ms=1000), 6, CONFIG)
    *deleted, last = effects.reply.responses
    assert len(effects.records) == 10_000 and not any(row.error_code for row in deleted)
    assert (last.error_code, last.error_message) == (ErrorCode.POLICY_VIOLATION, TOO_LARGE)


def quoting(name: str, count: int) -> list[Any]:
    """The rows of the answers that refuse so many partitions of a topic that is not there."""
    moved = AlterPartitionReassignmentsRequest.ReassignableTopic
    elected = ElectLeadersRequest.TopicPartitions(topic=name, partitions=list(range(count)))
    rows = [moved.ReassignablePartition(partition_index=index, replicas=[0]) for index in range(count)]
    electing = ElectLeadersRequest(election_type=0, topic_partitions=[elected], timeout_ms=1000)
    moving = AlterPartitionReassignmentsRequest(topics=[moved(name=name, partitions=rows)], timeout_ms=1000)
    return [
        elect_leaders.elect(cluster(1), electing, CONFIG).reply.replica_election_results[0].partition_result,
        reassignments.alter(cluster(1), moving, 1, CONFIG).reply.responses[0].partitions,
    ]


def test_the_sentences_of_refused_partitions_take_no_more_than_a_mebibyte() -> None:
    for rows in quoting("n" * 32_000, 5_000):
        texts = [row.error_message for row in rows]
        assert {row.error_code for row in rows} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert 200_000 < sum(len(text.encode()) for text in texts if text) <= 1 << 20
        assert texts[0] and texts[-1] is None
    for rows in quoting("a-topic", 5_000):
        assert all(row.error_message for row in rows)


class _Role:
    """A controller that is active and has one image."""

    def __init__(self, image: MetadataImage) -> None:
        self.controller, self.image, self.config = self, image, CONFIG

    async def until_active(self) -> None:
        return None

    async def read(self, decide: Callable[[MetadataImage], Any]) -> Any:
        return decide(self.image)


async def test_a_resource_that_an_answer_has_no_room_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_budget.AnswerBudget.__init__, "__defaults__", (40_000,))
    asked = [Described(resource_type=2, resource_name=name, configuration_keys=None) for name in named(9)]
    request = DescribeConfigsRequest(resources=asked, include_synonyms=True, include_documentation=True)
    role: Any = _Role(holding(named(9)))
    results = (await describe_configs_handler.handle(request, Context(32, 4, 1, None, role), role)).results
    assert [row.resource_name for row in results] == named(9)
    told = [bool(row.configs) for row in results]
    assert told == sorted(told, reverse=True) and 0 < sum(told) < 9
    assert {row.error_code for row in results if not row.configs} == {ErrorCode.MESSAGE_TOO_LARGE}
