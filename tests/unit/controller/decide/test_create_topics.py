"""CreateTopics, DeleteTopics and CreatePartitions: a table of requests, the records they make, and every refusal."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from support.metadata import after, broker, cluster, service, topic, topic_id
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata import records as r
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.replay import replay
from tailrace.quota.entity import ClientQuotas
from tailrace.quota.mutations import MutationQuota, MutationQuotas
from tailrace.wire.messages import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from tailrace_controller.decide import create_partitions, create_topics, delete_topics

CONFIG = Config.load("controller", overrides={"num.partitions": "4"})
IMAGE = after(cluster(3), *topic("events", 1, [0, 1, 2]))
ALL_FENCED = replay(MetadataImage(), broker(0, 1, fenced=True), 1, 1)
Asked = CreateTopicsRequest.CreatableTopic
Manual = Asked.CreatableReplicaAssignment


def new_ids() -> Iterator[UUID]:
    return (topic_id(number) for number in range(100, 200))


def ask(name: str = "new", partitions: int = 2, rf: int = 1, **more: Any) -> Any:
    assignments = [Manual(partition_index=i, broker_ids=b) for i, b in more.pop("manual", [])]
    configs = [Asked.CreatableTopicConfig(name=k, value=v) for k, v in more.pop("configs", {}).items()]
    if assignments and "keep" not in more:
        partitions = rf = -1
    return Asked(name=name, num_partitions=partitions, replication_factor=rf, assignments=assignments, configs=configs)


def create(*topics: Any, image: MetadataImage = IMAGE, validate_only: bool = False, config: Config = CONFIG) -> Any:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=1000, validate_only=validate_only)
    return create_topics.create(image, request, config, new_ids().__next__)


def test_a_created_topic_has_its_id_partitions_leaders_and_configs() -> None:
    effects = create(ask(configs={"retention.ms": "1000"}))
    assert effects.records == (
        r.TopicRecord("new", topic_id(100)),
        r.PartitionRecord(0, topic_id(100), (0,), (0,), 0),
        r.PartitionRecord(1, topic_id(100), (1,), (1,), 1),
        r.ConfigRecord(2, "new", "retention.ms", "1000"),
    )
    (result,) = effects.reply.topics
    assert (result.error_code, result.topic_id, result.num_partitions, result.replication_factor) == (
        0,
        topic_id(100),
        2,
        1,
    )
    rows = {row.name: (row.value, row.config_source) for row in result.configs}
    assert rows["retention.ms"] == ("1000", 1)
    assert rows["segment.bytes"] == ("1073741824", 5)


def test_minus_one_takes_the_brokers_defaults() -> None:
    effects = create(ask(partitions=-1, rf=-1))
    assert effects.reply.topics[0].num_partitions == 4


def test_partitions_go_round_robin_and_begin_where_fewest_lead() -> None:
    image = after(cluster(4), *topic("few", 1, [0, 1]))
    effects = create(ask(partitions=6), image=image)
    leaders = [record.leader for record in effects.records if isinstance(record, r.PartitionRecord)]
    assert leaders == [2, 3, 0, 1, 2, 3]


def test_twelve_partitions_on_four_fresh_brokers_lead_on_p_modulo_four() -> None:
    effects = create(ask(partitions=12), image=cluster(4))
    leaders = [record.leader for record in effects.records if isinstance(record, r.PartitionRecord)]
    assert leaders == [0, 1, 2, 3] * 3


def test_fenced_brokers_get_no_partitions() -> None:
    image = after(cluster(2), *broker(2, 50, fenced=True))
    effects = create(ask(partitions=4), image=image)
    assert {record.leader for record in effects.records if isinstance(record, r.PartitionRecord)} == {0, 1}


def test_twelve_partitions_with_three_replicas_on_four_nodes_follow_each_other() -> None:
    effects = create(ask(partitions=12, rf=3), image=cluster(4))
    placed = [record for record in effects.records if isinstance(record, r.PartitionRecord)]
    assert [record.replicas for record in placed] == [tuple((p + k) % 4 for k in range(3)) for p in range(12)]
    assert all(record.isr == record.replicas and record.leader == record.replicas[0] for record in placed)
    assert effects.reply.topics[0].replication_factor == 3


def test_no_rack_gets_a_second_replica_before_every_rack_has_one() -> None:
    racks = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c"}
    brokers = {number: replace(found, rack=racks[number]) for number, found in cluster(5).brokers.items()}
    effects = create(ask(partitions=10, rf=3), image=replace(cluster(5), brokers=brokers))
    placed = [record.replicas for record in effects.records if isinstance(record, r.PartitionRecord)]
    assert all({racks[replica] for replica in replicas} == {"a", "b", "c"} for replicas in placed)
    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(range(5), 2)


def test_a_fenced_broker_gets_replicas_only_where_live_ones_are_too_few_and_is_not_in_sync() -> None:
    image = after(cluster(2), *broker(2, 50, fenced=True))
    effects = create(ask(partitions=2, rf=3), image=image)
    placed = [(e.replicas, e.isr, e.leader) for e in effects.records if isinstance(e, r.PartitionRecord)]
    assert placed == [((0, 1, 2), (0, 1), 0), ((1, 0, 2), (1, 0), 1)]


def test_manual_replicas_that_are_fenced_are_not_in_sync() -> None:
    image = after(cluster(2), *broker(2, 50, fenced=True))
    effects = create(ask(manual=[(0, [2, 1, 0])]), image=image)
    assert effects.records[1] == r.PartitionRecord(0, topic_id(100), (2, 1, 0), (1, 0), 1)


def test_the_offsets_topic_gets_as_many_replicas_as_there_are_live_brokers_up_to_three() -> None:
    for live, expected in ((1, 1), (2, 2), (4, 3)):
        effects = create(ask("__consumer_offsets", -1, -1), image=cluster(live))
        assert effects.reply.topics[0].replication_factor == expected


def test_validate_only_answers_and_creates_nothing() -> None:
    effects = create(ask(), validate_only=True)
    assert effects.records == ()
    assert effects.reply.topics[0].error_code == 0


def test_a_manual_assignment_is_taken_as_it_is() -> None:
    effects = create(ask(manual=[(1, [0]), (0, [2])]))
    leaders = {e.partition_id: e.leader for e in effects.records if isinstance(e, r.PartitionRecord)}
    assert leaders == {0: 2, 1: 0}


def test_the_offsets_topic_has_settings_of_its_own_and_its_shards_get_owners() -> None:
    image = after(cluster(1), service("coordinator", 0, 60), service("coordinator", 1, 61))
    effects = create(ask("__consumer_offsets", -1, -1), image=image)
    configs = {e.name: e.value for e in effects.records if isinstance(e, r.ConfigRecord)}
    assert configs == {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
    owners = [e.owner for e in effects.records if isinstance(e, r.ShardOwnerRecord)]
    assert (len(owners), owners.count(0), owners.count(1)) == (50, 25, 25)
    assert effects.reply.topics[0].replication_factor == 1


def test_the_transactions_topic_has_the_settings_of_apache_kafka_and_its_shards_get_owners() -> None:
    image = after(cluster(1), service("coordinator", 0, 60), service("coordinator", 1, 61))
    effects = create(ask("__transaction_state", -1, -1), image=image)
    configs = {e.name: e.value for e in effects.records if isinstance(e, r.ConfigRecord)}
    assert configs == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }
    owners = [e.owner for e in effects.records if isinstance(e, r.ShardOwnerRecord)]
    assert (len(owners), owners.count(0), owners.count(1)) == (50, 25, 25)
    assert effects.reply.topics[0].replication_factor == 1


def test_what_a_request_says_of_an_internal_topic_wins() -> None:
    effects = create(ask("__transaction_state", 3, 2, configs={"min.insync.replicas": "1"}), image=cluster(3))
    configs = {e.name: e.value for e in effects.records if isinstance(e, r.ConfigRecord)}
    assert (configs["min.insync.replicas"], configs["cleanup.policy"]) == ("1", "compact")
    assert (effects.reply.topics[0].num_partitions, effects.reply.topics[0].replication_factor) == (3, 2)


def test_two_topics_of_one_request_do_not_begin_on_the_same_broker() -> None:
    effects = create(ask("a", 1), ask("b", 1), image=cluster(3))
    assert [e.leader for e in effects.records if isinstance(e, r.PartitionRecord)] == [0, 1]


CREATE_REFUSALS = [
    (ask(""), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: the empty string is not allowed"),
    (ask(".."), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: '..' is not allowed"),
    (ask("a" * 250), "INVALID_TOPIC_EXCEPTION", "is longer than the max allowed length 249"),
    (ask("a b"), "INVALID_TOPIC_EXCEPTION", "contains one or more characters other than ASCII alphanumerics"),
    (ask("ä"), "INVALID_TOPIC_EXCEPTION", "contains one or more characters other than ASCII alphanumerics"),
    (ask("__cluster_metadata"), "INVALID_REQUEST", "Creation of internal topic __cluster_metadata is prohibited."),
    (ask("events"), "TOPIC_ALREADY_EXISTS", "Topic 'events' already exists."),
    (ask(partitions=0), "INVALID_PARTITIONS", "Number of partitions was set to an invalid non-positive value."),
    (ask(partitions=-2), "INVALID_PARTITIONS", "non-positive"),
    (ask(rf=0), "INVALID_REPLICATION_FACTOR", "Replication factor must be larger than 0"),
    (ask(rf=4), "INVALID_REPLICATION_FACTOR", "cannot be reached because only 3 broker(s) are registered"),
    (ask(configs={"no.such": "1"}), "INVALID_CONFIG", "Unknown topic config name: no.such"),
    (ask(configs={"retention.ms": "x"}), "INVALID_CONFIG", "Invalid value x for configuration retention.ms"),
    (ask(configs={"retention.ms": None}), "INVALID_CONFIG", "Null value not supported for topic configs"),
    (ask(manual=[(0, [9])]), "INVALID_REPLICA_ASSIGNMENT", "includes broker 9, but no such broker is registered."),
    (ask(manual=[(0, [])]), "INVALID_REPLICA_ASSIGNMENT", "includes an empty replica list."),
    (ask(manual=[(0, [1, 1])]), "INVALID_REPLICA_ASSIGNMENT", "includes the broker 1 more than once."),
    (ask(manual=[(0, [0]), (1, [0, 1])]), "INVALID_REPLICA_ASSIGNMENT", "2 replica(s), but this is not consistent"),
    (ask(manual=[(0, [0]), (2, [1])]), "INVALID_REPLICA_ASSIGNMENT", "consecutive 0-based integer sequence"),
    (ask(manual=[(0, [0]), (0, [1])]), "INVALID_REPLICA_ASSIGNMENT", "Found multiple manual partition assignments"),
    (ask(manual=[(0, [0])], keep=1, rf=1), "INVALID_REQUEST", "replication factor was not set to -1."),
    (ask(manual=[(0, [0])], keep=1, rf=-1, partitions=1), "INVALID_REQUEST", "numPartitions was not set to -1."),
]


@pytest.mark.parametrize(("topic_asked", "code", "message"), CREATE_REFUSALS)
def test_create_topics_refuses_as_kafka_does(topic_asked: Any, code: str, message: str | None) -> None:
    effects = create(topic_asked, ask("fine"))
    refused, fine = effects.reply.topics
    assert ErrorCode(refused.error_code).name == code
    assert message is None or message in refused.error_message
    assert (refused.num_partitions, refused.replication_factor, refused.configs) == (-1, -1, [])
    assert fine.error_code == 0
    assert {record.name for record in effects.records if isinstance(record, r.TopicRecord)} == {"fine"}


def test_a_name_given_twice_is_refused_once_and_not_created() -> None:
    effects = create(ask("twice"), ask("twice"))
    (result,) = effects.reply.topics
    assert (ErrorCode(result.error_code).name, result.error_message) == ("INVALID_REQUEST", "Duplicate topic name.")
    assert effects.records == ()


def test_names_that_differ_only_by_dot_and_underscore_collide() -> None:
    image = after(IMAGE, *topic("a.b", 5, [0]))
    (result,) = create(ask("a_b"), image=image).reply.topics
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "collides with existing topic: a.b" in result.error_message


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (MetadataImage(), "cannot be reached because only 0 broker(s) are registered"),
        (ALL_FENCED, "All brokers are currently fenced or in controlled shutdown."),
    ],
)
def test_without_live_brokers_nothing_can_be_placed(image: MetadataImage, message: str) -> None:
    (result,) = create(ask(), image=image).reply.topics
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert message in result.error_message


def test_a_manual_assignment_to_fenced_brokers_alone_is_refused() -> None:
    (result,) = create(ask(manual=[(0, [0])]), image=ALL_FENCED).reply.topics
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "for partition 0 are fenced or in controlled shutdown." in result.error_message


# -- DeleteTopics ---------------------------------------------------------------------------------------------------


def delete(*asked: tuple[str | None, UUID | None], version: int = 6, config: Config = CONFIG) -> Any:
    state = DeleteTopicsRequest.DeleteTopicState
    if version >= 6:
        request = DeleteTopicsRequest(topics=[state(name=n, topic_id=i or r.NO_UUID) for n, i in asked], timeout_ms=1)
        for one, (_, wanted) in zip(request.topics, asked, strict=True):
            one.topic_id = wanted  # type: ignore[assignment]  # decoded requests carry None for the zero id
    else:
        request = DeleteTopicsRequest(topic_names=[name or "" for name, _ in asked], timeout_ms=1)
    return delete_topics.delete(IMAGE, request, version, config)


@pytest.mark.parametrize("asked", [("events", None), (None, topic_id(1))])
def test_a_topic_is_deleted_by_name_or_id_and_both_are_answered(asked: tuple[str | None, UUID | None]) -> None:
    effects = delete(asked)
    assert effects.records == (r.RemoveTopicRecord(topic_id(1)),)
    (result,) = effects.reply.responses
    assert (result.error_code, result.name, result.topic_id) == (0, "events", topic_id(1))


def test_before_version_six_topics_are_deleted_by_name_alone() -> None:
    effects = delete(("events", None), ("nothing", None), version=4)
    assert [result.error_code for result in effects.reply.responses] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert effects.records == (r.RemoveTopicRecord(topic_id(1)),)


@pytest.mark.parametrize(
    ("asked", "codes"),
    [
        ([("nothing", None)], ["UNKNOWN_TOPIC_OR_PARTITION"]),
        ([(None, topic_id(9))], ["UNKNOWN_TOPIC_ID"]),
        ([(None, None)], ["INVALID_REQUEST"]),
        ([("events", topic_id(1))], ["INVALID_REQUEST"]),
        ([("events", None), ("events", None)], ["INVALID_REQUEST"]),
        ([(None, topic_id(1)), (None, topic_id(1))], ["INVALID_REQUEST"]),
    ],
)
def test_delete_topics_refuses_as_kafka_does(asked: list[tuple[str | None, UUID | None]], codes: list[str]) -> None:
    effects = delete(*asked)
    assert [ErrorCode(result.error_code).name for result in effects.reply.responses] == codes
    assert effects.records == ()


def test_a_name_whose_id_was_given_too_is_deleted_once() -> None:
    effects = delete((None, topic_id(1)), ("events", None))
    assert [result.error_code for result in effects.reply.responses] == [0, ErrorCode.INVALID_REQUEST]
    assert len(effects.records) == 1


@pytest.mark.parametrize(("version", "code"), [(2, "INVALID_REQUEST"), (3, "TOPIC_DELETION_DISABLED")])
def test_deletion_may_be_disabled(version: int, code: str) -> None:
    config = Config.load("controller", overrides={"delete.topic.enable": "false"})
    with pytest.raises(ApiError) as refused:
        delete(("events", None), version=version, config=config)
    assert refused.value.code.name == code


# -- CreatePartitions -------------------------------------------------------------------------------------------------


def add(count: int, name: str = "events", manual: list[list[int]] | None = None, *, validate_only: bool = False) -> Any:
    asked = CreatePartitionsRequest.CreatePartitionsTopic
    rows = None if manual is None else [asked.CreatePartitionsAssignment(broker_ids=ids) for ids in manual]
    one = asked(name=name, count=count, assignments=rows)
    request = CreatePartitionsRequest(topics=[one], timeout_ms=1, validate_only=validate_only)
    return create_partitions.create(IMAGE, request)


def test_new_partitions_go_on_where_the_last_one_left_off() -> None:
    effects = add(5)
    assert effects.records == (
        r.PartitionRecord(3, topic_id(1), (0,), (0,), 0),
        r.PartitionRecord(4, topic_id(1), (1,), (1,), 1),
    )
    assert [(row.name, row.error_code) for row in effects.reply.results] == [("events", 0)]


def test_new_partitions_can_be_placed_by_hand_or_only_validated() -> None:
    assert [e.leader for e in add(5, manual=[[2], [2]]).records if isinstance(e, r.PartitionRecord)] == [2, 2]
    assert add(5, validate_only=True).records == ()


@pytest.mark.parametrize(
    ("effects", "code", "message"),
    [
        (lambda: add(5, "nothing"), "UNKNOWN_TOPIC_OR_PARTITION", None),
        (lambda: add(3), "INVALID_PARTITIONS", "Topic already has 3 partition(s)."),
        (lambda: add(2), "INVALID_PARTITIONS", "currently has 3 partition(s); 2 would not be an increase."),
        (lambda: add(20_000), "POLICY_VIOLATION", "Excessively large"),
        (lambda: add(5, manual=[[0]]), "INVALID_REPLICA_ASSIGNMENT", "Attempted to add 2 additional partition(s), but"),
        (lambda: add(4, manual=[[7]]), "INVALID_REPLICA_ASSIGNMENT", "broker 7, but no such broker is registered."),
        (lambda: add(4, manual=[[0, 1]]), "INVALID_REPLICA_ASSIGNMENT", "not consistent with previous partitions"),
    ],
)
def test_create_partitions_refuses_as_kafka_does(effects: Any, code: str, message: str) -> None:
    done = effects()
    (row,) = done.reply.results
    assert (ErrorCode(row.error_code).name, done.records) == (code, ())
    assert (message in row.error_message) if message else row.error_message is None


def test_partitions_of_the_offsets_topic_get_owners_at_once() -> None:
    image = after(cluster(1), service("coordinator", 0, 60), *topic("__consumer_offsets", 4, [0]))
    asked = CreatePartitionsRequest.CreatePartitionsTopic(name="__consumer_offsets", count=2, assignments=None)
    effects = create_partitions.create(image, CreatePartitionsRequest(topics=[asked], timeout_ms=1))
    assert [e.partition for e in effects.records if isinstance(e, r.ShardOwnerRecord)] == [0, 1]


# -- quotas of mutations (KIP-599) ---------------------------------------------------------------------------------


def in_debt_after(partitions: int, *, strict: bool = True) -> MutationQuota:
    """A client's quota that so many partitions put into debt, less than one more."""
    quotas = ClientQuotas({(("client-id", "c"),): {"controller_mutation_rate": 1.0}})
    buckets = MutationQuotas((partitions - 1) * 1000.0, 15_000, 10, lambda: 0.0)
    return buckets.of(quotas, "u", "c", strict=strict)


def codes(rows: Any) -> list[str]:
    return [ErrorCode(row.error_code).name for row in rows]


def test_topics_above_the_quota_are_refused_and_those_before_are_made() -> None:
    request = CreateTopicsRequest(topics=[ask("a"), ask("b"), ask("events"), ask("c")], timeout_ms=1)
    for validate_only in (False, True):
        request.validate_only = validate_only
        effects = create_topics.create(IMAGE, request, CONFIG, new_ids().__next__, in_debt_after(4))
        rows = effects.reply.topics
        assert codes(rows) == ["NONE", "NONE", "TOPIC_ALREADY_EXISTS", "THROTTLING_QUOTA_EXCEEDED"]
        assert rows[3].error_message is None
        assert len([one for one in effects.records if isinstance(one, r.TopicRecord)]) == (0 if validate_only else 2)


def test_old_versions_create_above_the_quota() -> None:
    request = CreateTopicsRequest(topics=[ask("a"), ask("b")], timeout_ms=1)
    quota = in_debt_after(2, strict=False)
    assert codes(create_topics.create(IMAGE, request, CONFIG, new_ids().__next__, quota).reply.topics) == ["NONE"] * 2
    assert quota.throttle_time_ms == 3000


def test_a_topic_above_the_quota_is_not_deleted() -> None:
    image = after(cluster(3), *topic("events", 1, [0, 1, 2]), *topic("more", 2, [0]))
    request = DeleteTopicsRequest(topic_names=["events", "nope", "more"], timeout_ms=1)
    effects = delete_topics.delete(image, request, 5, CONFIG, in_debt_after(3))
    wanted = ["NONE", "UNKNOWN_TOPIC_OR_PARTITION", "THROTTLING_QUOTA_EXCEEDED"]
    assert (codes(effects.reply.responses), len(effects.records)) == (wanted, 1)


def test_partitions_above_the_quota_are_not_added_and_only_new_ones_count() -> None:
    image = after(cluster(3), *topic("events", 1, [0, 1, 2]), *topic("more", 2, [0]))
    one = CreatePartitionsRequest.CreatePartitionsTopic
    asked = [one(name="events", count=5, assignments=None), one(name="more", count=2, assignments=None)]
    request = CreatePartitionsRequest(topics=asked, timeout_ms=1)
    effects = create_partitions.create(image, request, in_debt_after(2))
    assert (codes(effects.reply.results), len(effects.records)) == (["NONE", "THROTTLING_QUOTA_EXCEEDED"], 2)
