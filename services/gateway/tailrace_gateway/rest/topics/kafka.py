"""Creating, growing and deleting topics: CreateTopics v7, CreatePartitions v3, DeleteTopics v6."""

from __future__ import annotations

from typing import Any

from tailrace.wire.messages import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.errors import check
from tailrace_gateway.rest.topics.models import NewTopic

TIMEOUT_MS = 10_000


async def create(backend: AdminBackend, wanted: NewTopic) -> Any:
    """Creates one topic and answers its CreatableTopicResult; unless only validated, it is in the image then."""
    row = CreateTopicsRequest.CreatableTopic
    topic = row(
        name=wanted.topic_name,
        num_partitions=wanted.partitions_count,
        replication_factor=wanted.replication_factor,
        assignments=[
            row.CreatableReplicaAssignment(partition_index=one.partition_id, broker_ids=one.broker_ids)
            for one in wanted.replicas_assignments
        ],
        configs=[row.CreatableTopicConfig(name=pair.name, value=pair.value) for pair in wanted.configs],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=wanted.validate_only)
    (result,) = (await backend.ask_controller(request)).topics
    check(result.error_code, result.error_message)
    if not wanted.validate_only:
        await backend.wait_for(lambda image: image.topic(wanted.topic_name) is not None)
    return result


async def grow(backend: AdminBackend, name: str, partitions_count: int) -> None:
    """Adds partitions up to a total."""
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=partitions_count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=False)
    (result,) = (await backend.ask_controller(request)).results
    check(result.error_code, result.error_message)
    await backend.wait_for(lambda image: image.partition(name, partitions_count - 1) is not None)


async def delete(backend: AdminBackend, name: str) -> None:
    """Deletes one topic."""
    gone = backend.image().topic(name)
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=name)], timeout_ms=TIMEOUT_MS)
    (result,) = (await backend.ask_controller(request)).responses
    check(result.error_code, result.error_message)
    await backend.wait_for(lambda image: (now := image.topic(name)) is None or now != gone)
