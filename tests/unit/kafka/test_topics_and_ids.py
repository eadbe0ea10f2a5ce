"""Kafka's numbers and forms, beside what kafka-python says of them."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.admin import ConfigResourceType

from tailrace.kafka.ids import format_uuid, parse_uuid
from tailrace.kafka.resources import ConfigResource, ConfigSource
from tailrace.kafka.topics import CLUSTER_METADATA_TOPIC, INTERNAL_TOPICS


def test_resource_types_have_the_numbers_of_the_protocol() -> None:
    known = {kind.name: kind.value for kind in ConfigResourceType}
    ours = {kind.name: kind.value for kind in ConfigResource}
    assert {name: known[name] for name in ours if name in known} == {name: ours[name] for name in ours if name in known}
    assert list(ours.values()) == [2, 4, 8, 16, 32]
    assert ConfigResource.CLIENT_METRICS.label == "client-metrics"


def test_sources_have_the_numbers_of_the_protocol() -> None:
    assert [source.value for source in ConfigSource] == [0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_the_metadata_log_is_no_internal_topic() -> None:
    assert CLUSTER_METADATA_TOPIC not in INTERNAL_TOPICS  # a client never sees it


@given(uuid=st.uuids())
def test_ids_round_trip(uuid: UUID) -> None:
    text = format_uuid(uuid)
    assert len(text) == 22
    assert parse_uuid(text) == uuid


def test_an_id_is_written_as_kafka_writes_it() -> None:
    assert format_uuid(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize("text", ["", "A", "AAAA", "AAAAAAAAAAAAAAAAAAAAAQAA", "é" * 22])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_uuid(text)
