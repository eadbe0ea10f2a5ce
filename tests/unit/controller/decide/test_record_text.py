"""What no metadata database can hold is refused before it is decided, with the code of each API."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from support.metadata import after, broker, cluster, topic
from tailrace.config import Config
from tailrace.errors import ErrorCode
from tailrace.kafka.resources import ConfigResource
from tailrace.metadata.records import ClientQuotaRecord, ConfigRecord, QuotaEntity
from tailrace.wire.messages import AlterClientQuotasRequest, CreateTopicsRequest, IncrementalAlterConfigsRequest
from tailrace_controller.decide import alter_configs, client_quotas, create_topics
from tailrace_controller.decide.record_text import MAX_NAME_BYTES, check

CONFIG = Config.load("controller")
IMAGE = after(cluster(), *broker(0, 5), *topic("orders", 1, [0]))
LONG = "é" * (MAX_NAME_BYTES // 2)
BAD_NAMES = ["a\0b", f"{LONG}x", "x" * 30_000]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("kind", ["client-id", "user"])
def test_a_quota_of_a_name_that_cannot_be_stored_is_refused_alone(kind: str, name: str) -> None:
    entry = AlterClientQuotasRequest.EntryData
    entries = [
        entry(
            entity=[entry.EntityData(entity_type=kind, entity_name=one)],
            ops=[entry.OpData(key="producer_byte_rate", value=1000.0, remove=False)],
        )
        for one in (name, LONG)
    ]
    effects = client_quotas.alter(IMAGE, AlterClientQuotasRequest(entries=entries, validate_only=False))
    assert [row.error_code for row in effects.reply.entries] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert effects.records == (ClientQuotaRecord((QuotaEntity(kind, LONG),), "producer_byte_rate", 1000.0),)


@pytest.mark.parametrize(
    ("kind", "resource", "name", "value", "code"),
    [
        (ConfigResource.TOPIC, "orders", "retention.ms", "5\0", ErrorCode.INVALID_CONFIG),
        (ConfigResource.BROKER, "0", "my.key", "a\0b", ErrorCode.INVALID_REQUEST),
        (ConfigResource.BROKER, "0", "my\0key", "a", ErrorCode.INVALID_REQUEST),
        (ConfigResource.BROKER, "", "k" * 30_000, "a", ErrorCode.INVALID_REQUEST),
        (ConfigResource.GROUP, "g\0", "consumer.session.timeout.ms", "45000", ErrorCode.INVALID_CONFIG),
        (ConfigResource.GROUP, "g" * 30_000, "consumer.session.timeout.ms", "45000", ErrorCode.INVALID_CONFIG),
        (ConfigResource.CLIENT_METRICS, "s", "metrics", "a\0b", ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_config_that_cannot_be_stored_is_refused_alone(
    kind: int, resource: str, name: str, value: str, code: ErrorCode
) -> None:
    row = IncrementalAlterConfigsRequest.AlterConfigsResource
    asked = [
        row(
            resource_type=kind,
            resource_name=resource,
            configs=[row.AlterableConfig(name=name, config_operation=0, value=value)],
        ),
        row(
            resource_type=ConfigResource.GROUP,
            resource_name="fine",
            configs=[row.AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value="45000")],
        ),
    ]
    request = IncrementalAlterConfigsRequest(resources=asked, validate_only=False)
    effects = alter_configs.incremental(IMAGE, request, CONFIG)
    assert [one.error_code for one in effects.reply.responses] == [code, ErrorCode.NONE]
    assert effects.records == (ConfigRecord(ConfigResource.GROUP, "fine", "consumer.session.timeout.ms", "45000"),)


def test_a_topic_whose_config_cannot_be_stored_is_not_created() -> None:
    topic_row = CreateTopicsRequest.CreatableTopic

    def asked(name: str, **configs: str) -> Any:
        rows = [topic_row.CreatableTopicConfig(name=key.replace("_", "."), value=text) for key, text in configs.items()]
        return topic_row(name=name, num_partitions=1, replication_factor=1, configs=rows)

    request = CreateTopicsRequest(topics=[asked("bad", retention_ms="5\0"), asked("good", retention_ms="5")])
    effects = create_topics.create(IMAGE, request, CONFIG, lambda: UUID(int=9))
    assert [row.error_code for row in effects.reply.topics] == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]


def test_what_was_stored_by_another_database_can_be_removed() -> None:
    check([ConfigRecord(4, "0", "a\0b", None), ClientQuotaRecord((QuotaEntity("user", "a\0"),), "k", 0.0, remove=True)])
