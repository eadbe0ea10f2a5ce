"""The rights that Produce, Fetch and ListOffsets need at the broker: what is refused is neither appended nor read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from support.authorizers import Asked, Recorder, expected
from support.broker import CLIENT, OFFSETS_ID, TOPIC_ID, batch, image, running
from support.sessions import Holder
from support.stub_coordinator import ID, data, produce, with_coordinator
from tailrace.access.acls import Acl, AclPermission, PatternType
from tailrace.access.authorizer import Denied
from tailrace.access.image import AclImage
from tailrace.access.resources import AclOperation, ResourceType
from tailrace.errors import ErrorCode
from tailrace.net.authorization.denials import Denials
from tailrace.net.authorization.image_authorizer import ImageAuthorizer
from tailrace.net.authorization.opening import STANDARD
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.session import ClientSession
from tailrace.wire.apis import ApiKey
from tailrace.wire.messages import ListOffsetsRequest, ProduceRequest
from tailrace_broker.topic_rights import TopicRights

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
VERSIONS = pytest.mark.parametrize("version", [12, 13])
FAST = pytest.mark.parametrize("fast", ["true", "false"])


@VERSIONS
@FAST
async def test_a_topic_that_may_not_be_written_takes_no_batch(tmp_path: Path, version: int, fast: str) -> None:
    authorizer = Recorder()
    async with running(tmp_path, authorizer=authorizer, broker_fast_path=fast) as node:
        for _ in range(2):  # the second time its head was seen before
            row = await node.produce(0, batch(b"v"), version=version)
            assert (row.error_code, row.base_offset) == (REFUSED, -1)
        assert node.broker.topics.led("t", 0).log.log_end_offset == 0
        assert set(authorizer.asked) == {Asked("WRITE", "TOPIC", "t")} < expected("PRODUCE")


@VERSIONS
async def test_of_several_topics_those_that_may_be_written_are(tmp_path: Path, version: int) -> None:
    async with running(tmp_path, authorizer=Recorder(lambda asked: asked.name == "t")) as node:
        topic = ProduceRequest.TopicProduceData
        rows = [topic.PartitionProduceData(index=0, records=batch(b"v"))]
        names = (("t", TOPIC_ID), ("__consumer_offsets", OFFSETS_ID))
        asked = [topic(name=name, topic_id=topic_id, partition_data=rows) for name, topic_id in names]
        request = ProduceRequest(acks=1, timeout_ms=5000, topic_data=asked)
        answer = await node.client.ask(request, timeout_ms=5000, version=version)
        assert [t.partition_responses[0].error_code for t in answer.responses] == [0, REFUSED]


@VERSIONS
@FAST
async def test_a_topic_that_may_not_be_read_is_not_fetched(tmp_path: Path, version: int, fast: str) -> None:
    authorizer = Recorder(lambda asked: asked.operation == "WRITE")
    async with running(tmp_path, authorizer=authorizer, broker_fast_path=fast) as node:
        await node.produce(0, batch(b"v"))
        for fields in ({}, {}, {"session_id": 0, "session_epoch": 0}):
            row = await node.fetch(0, 0, version=version, **fields)
            assert (row.error_code, row.high_watermark, row.records or None) == (REFUSED, -1, None)
        assert set(authorizer.asked) - {Asked("WRITE", "TOPIC", "t")} == expected("FETCH")


def acls(*operations: AclOperation, name: str = "t") -> AclImage:
    return AclImage().changed(
        Acl(ResourceType.TOPIC, name, PatternType.LITERAL, CLIENT.principal, "*", one, AclPermission.ALLOW)
        for one in operations
    )


@VERSIONS
@FAST
async def test_a_right_that_is_taken_away_holds_no_longer(tmp_path: Path, version: int, fast: str) -> None:
    both = replace(image(), acls=acls(AclOperation.READ, AclOperation.WRITE))
    async with running(tmp_path, metadata=both, authorizer_class_name=STANDARD, broker_fast_path=fast) as node:
        for offset in range(3):  # asked, then remembered, then by a head that was seen before
            assert (await node.produce(0, batch(b"v"), version=version)).base_offset == offset
            assert (await node.fetch(0, offset, version=version)).high_watermark == offset + 1
        node.follower.image = replace(both, offset=1, acls=acls(AclOperation.READ))
        for _ in range(2):
            assert (await node.produce(0, batch(b"v"), version=version)).error_code == REFUSED
            assert (await node.fetch(0, 0, version=version)).high_watermark == 3
        node.follower.image = replace(both, offset=2, acls=acls(AclOperation.WRITE))
        for offset in (3, 4):
            assert (await node.produce(0, batch(b"v"), version=version)).base_offset == offset
            assert (await node.fetch(0, 0, version=version)).error_code == REFUSED


async def test_names_of_topics_that_are_not_there_are_not_remembered(tmp_path: Path) -> None:
    """A name in a request may have 32,000 characters."""
    everything = replace(image(), acls=acls(AclOperation.READ, name="*"))
    denials = Denials(CollectorRegistry(), structlog.get_logger(), lambda: 0.0)
    async with running(tmp_path, metadata=everything) as node:
        rights = TopicRights(node.broker.topics, node.follower)
        authorizer = ImageAuthorizer(node.follower, frozenset(), denials, allow_everyone=False)
        session = ClientSession(Holder(), RoleMemory(), CLIENT, authorizer=authorizer)
        for key, by_id in ((b"t", False), (b"missing" * 1000, False), (TOPIC_ID.bytes, True), (bytes(16), True)):
            assert rights.refusal(session, AclOperation.READ, key, by_id=by_id) == ErrorCode.NONE
        assert session.grants.read == {(False, b"t"), (True, TOPIC_ID.bytes)}


@FAST
async def test_a_client_with_the_rights_is_served(tmp_path: Path, fast: str) -> None:
    authorizer = Recorder(lambda asked: True)
    async with running(tmp_path, authorizer=authorizer, broker_fast_path=fast) as node:
        assert (await node.produce(0, batch(b"v"))).base_offset == 0
        assert (await node.fetch(0, 0)).high_watermark == 1


async def test_a_role_of_the_cluster_is_not_asked_for_rights(tmp_path: Path) -> None:
    authorizer = Recorder()
    async with running(tmp_path, authorizer=authorizer) as node:
        answer = await node.service.ask(node.fetch_request(0, 0), timeout_ms=5000, version=12)
        assert answer.responses[0].partitions[0].error_code == 0 and authorizer.asked == []


def offsets(*names: str) -> Any:
    topic = ListOffsetsRequest.ListOffsetsTopic
    partition = topic.ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(topics=[topic(name=name, partitions=[partition]) for name in names])


async def test_end_offsets_are_told_of_topics_that_may_be_described(tmp_path: Path) -> None:
    async with running(tmp_path, authorizer=Recorder(lambda asked: asked.name == "t")) as node:
        answer = await node.client.ask(offsets("t", "secret"), timeout_ms=5000, version=7)
        found = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
        assert found == {"t": 0, "secret": REFUSED}


@pytest.mark.parametrize("version", [7, 12, 13])
async def test_a_transactional_id_that_may_not_be_used_is_refused_as_a_whole(tmp_path: Path, version: int) -> None:
    authorizer = Recorder(lambda asked: asked.resource == "TOPIC")
    async with with_coordinator(tmp_path, authorizer=authorizer) as (node, stub):
        row = await produce(node, data(), version=version)
        assert row.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED and not stub.asked
        assert Asked("WRITE", "TRANSACTIONAL_ID", ID) in authorizer.asked
        denied = Denied(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, ID)
        assert authorizer.denied == [(ApiKey.PRODUCE, denied)]


async def test_a_topic_that_is_refused_is_not_added_to_the_transaction(tmp_path: Path) -> None:
    authorizer = Recorder(lambda asked: asked.resource == "TRANSACTIONAL_ID")
    async with with_coordinator(tmp_path, authorizer=authorizer) as (node, stub):
        assert (await produce(node, data())).error_code == REFUSED and not stub.asked
