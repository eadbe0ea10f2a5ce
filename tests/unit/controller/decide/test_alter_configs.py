"""Alter, describe and list configs: records, precedence, and every refusal."""

from typing import Any

import pytest

from support.metadata import after, cluster, replicated, topic, topic_id
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata import records as r
from tailrace.metadata.image import MetadataImage
from tailrace.wire.messages import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from tailrace_controller.decide import alter_configs, describe_configs

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
CONFIG = Config.load("controller")
IMAGE = after(
    cluster(2),
    *topic("events", 1, [0]),
    r.ConfigRecord(TOPIC, "events", "retention.ms", "5000"),
    r.ConfigRecord(TOPIC, "events", "cleanup.policy", "delete"),
)
Resource = IncrementalAlterConfigsRequest.AlterConfigsResource


def resource(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Any:
    configs = [Resource.AlterableConfig(name=k, config_operation=op, value=v) for k, op, v in changes]
    return Resource(resource_type=kind, resource_name=name, configs=configs)


def alter(*resources: Any, validate_only: bool = False, image: MetadataImage = IMAGE) -> Any:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    return alter_configs.incremental(image, request, CONFIG)


def replacing(name: str, **configs: str) -> Any:
    asked = AlterConfigsRequest.AlterConfigsResource
    rows = [asked.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    one = asked(resource_type=TOPIC, resource_name=name, configs=rows)
    return alter_configs.replacing(IMAGE, AlterConfigsRequest(resources=[one], validate_only=False), CONFIG)


def test_configs_are_set_deleted_appended_and_subtracted() -> None:
    effects = alter(
        resource(
            TOPIC,
            "events",
            ("retention.bytes", SET, "7"),
            ("retention.ms", DELETE, None),
            ("cleanup.policy", APPEND, "compact"),
        )
    )
    assert [row.error_code for row in effects.reply.responses] == [0]
    assert set(effects.records) == {
        r.ConfigRecord(TOPIC, "events", "retention.bytes", "7"),
        r.ConfigRecord(TOPIC, "events", "retention.ms", None),
        r.ConfigRecord(TOPIC, "events", "cleanup.policy", "delete,compact"),
    }


REPLICATED = after(
    cluster(3),
    *replicated("led", 1, isr=(0,)),
    r.PartitionChangeRecord(0, topic_id(1), eligible_leader_replicas=(1,)),
    *replicated("stuck", 2, isr=(), leader=-1),
    r.PartitionChangeRecord(0, topic_id(2), eligible_leader_replicas=(2,)),
    r.BrokerRegistrationChangeRecord(2, 12, fenced=1),
)


@pytest.mark.parametrize(("kind", "name", "forgets"), [(TOPIC, "led", 1), (TOPIC, "stuck", 0), (BROKER, "", 1)])
def test_another_min_isr_forgets_who_was_eligible_where_somebody_leads(kind: int, name: str, forgets: int) -> None:
    effects = alter(resource(kind, name, ("min.insync.replicas", SET, "2")), image=REPLICATED)
    changes = [record for record in effects.records if isinstance(record, r.PartitionChangeRecord)]
    assert len(changes) == forgets
    found = after(REPLICATED, *effects.records)
    assert found.topics["stuck"].partitions[0].eligible_leader_replicas == (2,)


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "stuck"), (BROKER, "")])
def test_allowing_unclean_elections_elects_at_once(kind: int, name: str) -> None:
    change = resource(kind, name, ("unclean.leader.election.enable", SET, "true"))
    found = after(REPLICATED, *alter(change, image=REPLICATED).records)
    assert (found.leader("stuck", 0), found.leader("led", 0)) == (0, 0)
    assert alter(change, image=REPLICATED, validate_only=True).records == ()


def test_one_broker_alone_has_no_min_isr() -> None:
    (row,) = alter(resource(BROKER, "0", ("min.insync.replicas", SET, "2"))).reply.responses
    assert ErrorCode(row.error_code).name == "INVALID_CONFIG"
    assert row.error_message == "Broker-level min.insync.replicas cannot be altered while ELR is enabled."


def test_what_does_not_change_is_not_recorded() -> None:
    assert alter(resource(TOPIC, "events", ("retention.ms", SET, "5000"))).records == ()


def test_validate_only_records_nothing() -> None:
    effects = alter(resource(TOPIC, "events", ("retention.ms", SET, "1")), validate_only=True)
    assert (effects.records, effects.reply.responses[0].error_code) == ((), 0)


def test_alter_configs_resets_what_it_does_not_name() -> None:
    effects = replacing("events", retention_ms="9")
    assert set(effects.records) == {
        r.ConfigRecord(TOPIC, "events", "cleanup.policy", None),
        r.ConfigRecord(TOPIC, "events", "retention.ms", "9"),
    }


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        (resource(TOPIC, "none", ("retention.ms", SET, "1")), "UNKNOWN_TOPIC_OR_PARTITION", "'none' does not exist"),
        (
            resource(TOPIC, "", ("retention.ms", SET, "1")),
            "INVALID_REQUEST",
            "Default topic resources are not allowed.",
        ),
        (resource(TOPIC, "a b", ("retention.ms", SET, "1")), "INVALID_TOPIC_EXCEPTION", "is invalid"),
        (resource(TOPIC, "events", ("retention.ms", SET, "x")), "INVALID_CONFIG", "Invalid value x"),
        (resource(TOPIC, "events", ("no.such", SET, "x")), "INVALID_CONFIG", "Unknown topic config name: no.such"),
        (resource(TOPIC, "events", ("retention.ms", SET, None)), "INVALID_REQUEST", "Null value not supported"),
        (resource(TOPIC, "events", ("retention.ms", APPEND, "1")), "INVALID_CONFIG", "its type is not LIST"),
        (resource(TOPIC, "events", ("retention.ms", 9, "1")), "INVALID_REQUEST", "Unknown operation type 9"),
        (resource(BROKER, "7", ("log.retention.ms", SET, "1")), "INVALID_REQUEST", "expected 0, 1, but received 7"),
        (
            resource(BROKER, "x", ("log.retention.ms", SET, "1")),
            "INVALID_REQUEST",
            "Node id must be an integer, but it is: x",
        ),
        (resource(BROKER, "0", ("node.id", SET, "1")), "INVALID_REQUEST", "Cannot update these configs dynamically"),
        (resource(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")), "INVALID_REQUEST", "Default group"),
        (resource(GROUP, "g", ("no.such", SET, "1")), "INVALID_CONFIG", "Unknown group config name"),
        (resource(METRICS, "", ("interval.ms", SET, "1000")), "INVALID_REQUEST", "Subscription name"),
        (resource(METRICS, "m", ("no.such", SET, "1")), "INVALID_REQUEST", "Unknown client metrics configuration"),
        (resource(LOGGER, "0", ("root", SET, "INFO")), "INVALID_REQUEST", "Unknown resource type 8"),
        (resource(99, "x", ("a", SET, "b")), "INVALID_REQUEST", "Unknown resource type 99"),
    ],
)
def test_alter_refuses_one_resource_and_alters_the_others(asked: Any, code: str, message: str) -> None:
    effects = alter(asked, resource(BROKER, "", ("log.retention.ms", SET, "77")))
    refused, fine = effects.reply.responses
    assert ErrorCode(refused.error_code).name == code
    assert message in refused.error_message
    assert fine.error_code == 0
    assert effects.records == (r.ConfigRecord(BROKER, "", "log.retention.ms", "77"),)


def test_a_resource_given_twice_is_refused_twice() -> None:
    one = resource(TOPIC, "events", ("retention.ms", SET, "1"))
    effects = alter(one, one)
    assert [row.error_message for row in effects.reply.responses] == ["Each resource must appear at most once."] * 2
    assert effects.records == ()


# -- DescribeConfigs --------------------------------------------------------------------------------------------------


def describe(kind: int, name: str, image: MetadataImage = IMAGE, **options: Any) -> Any:
    asked = DescribeConfigsRequest.DescribeConfigsResource
    keys = options.pop("keys", None)
    one = asked(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = DescribeConfigsRequest(resources=[one], **options)
    (result,) = describe_configs.describe_configs(image, request, CONFIG).reply.results
    return result


def test_a_topic_is_described_with_all_its_configs_and_their_sources() -> None:
    result = describe(TOPIC, "events", include_synonyms=True, include_documentation=True)
    rows = {row.name: row for row in result.configs}
    assert (result.error_code, result.error_message, len(rows)) == (0, "", 41)
    assert (rows["retention.ms"].value, rows["retention.ms"].config_source) == ("5000", 1)
    assert rows["retention.ms"].synonyms[0].source == 1
    assert rows["segment.bytes"].documentation


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "events"), (BROKER, "0"), (GROUP, "g"), (METRICS, "m")])
def test_an_empty_list_of_keys_is_all_of_them(kind: int, name: str) -> None:
    everything = [row.name for row in describe(kind, name).configs]
    assert [row.name for row in describe(kind, name, keys=[]).configs] == everything != []


def test_named_keys_alone_are_described_and_no_synonyms_unless_asked() -> None:
    result = describe(TOPIC, "events", keys=["retention.ms", "no.such"])
    assert [row.name for row in result.configs] == ["retention.ms"]
    assert result.configs[0].synonyms == []
    assert result.configs[0].documentation is None


def test_a_cluster_wide_dynamic_config_reaches_topics_and_brokers() -> None:
    image = after(IMAGE, r.ConfigRecord(BROKER, "", "log.segment.bytes", "2097152"))
    topic_row = describe(TOPIC, "events", image, keys=["segment.bytes"]).configs[0]
    broker_row = describe(BROKER, "1", image, keys=["log.segment.bytes"]).configs[0]
    default_row = describe(BROKER, "", image).configs[0]
    assert [row.value for row in (topic_row, broker_row, default_row)] == ["2097152"] * 3
    assert [row.config_source for row in (topic_row, broker_row, default_row)] == [3, 3, 3]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "none", "UNKNOWN_TOPIC_OR_PARTITION"),
        (TOPIC, "a b", "INVALID_TOPIC_EXCEPTION"),
        (BROKER, "7", "INVALID_REQUEST"),
        (BROKER, "x", "INVALID_REQUEST"),
        (BROKER, "9" * 5000, "INVALID_REQUEST"),
        (METRICS, "", "INVALID_REQUEST"),
        (LOGGER, "0", "INVALID_REQUEST"),
        (TOPIC, "events", "NONE"),
        (GROUP, "", "INVALID_REQUEST"),
        (GROUP, "any", "NONE"),
        (METRICS, "any", "NONE"),
    ],
)
def test_describe_names_the_error_of_each_resource(kind: int, name: str, code: str) -> None:
    result = describe(kind, name)
    assert ErrorCode(result.error_code).name == code
    assert bool(result.configs) == (code == "NONE")


# -- ListConfigResources ----------------------------------------------------------------------------------------------


def listed(types: list[int], version: int = 1) -> list[tuple[int, str]]:
    image = after(IMAGE, r.ConfigRecord(GROUP, "g", "a", "1"), r.ConfigRecord(METRICS, "m", "a", "1"))
    request = ListConfigResourcesRequest(resource_types=types)
    rows = describe_configs.list_resources(image, request, version).reply.config_resources
    return [(row.resource_type, row.resource_name) for row in rows]


def test_config_resources_are_listed_by_type() -> None:
    assert listed([TOPIC, BROKER]) == [(TOPIC, "events"), (BROKER, "0"), (BROKER, "1")]
    assert listed([]) == [
        (TOPIC, "events"), (BROKER, "0"), (BROKER, "1"), (LOGGER, "0"), (LOGGER, "1"), (METRICS, "m"), (GROUP, "g"),
    ]  # fmt: skip
    assert listed([], version=0) == [(METRICS, "m")]


def test_an_unknown_type_of_config_resource_is_an_unsupported_version() -> None:
    with pytest.raises(ApiError) as refused:
        listed([99])
    assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION
