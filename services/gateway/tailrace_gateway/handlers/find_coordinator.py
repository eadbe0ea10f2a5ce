"""FindCoordinator v0-6. v1: key types. v4: many keys in one request (KIP-699). v6: share groups (KIP-932), not served.

The node named is the leader of the group's partition of `__consumer_offsets`, or of the transactional id's partition of
`__transaction_state`, as in Apache Kafka; the gateway takes the id's requests from any port. The topic is created on
the first need. A coordinator that is on its way (the topic is being created, its partition gets a leader, its shard an
owner) is waited for a moment: clients that hear COORDINATOR_NOT_AVAILABLE ask again after half a second only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import partial

from tailrace.errors import ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace.metadata.image import MetadataImage
from tailrace.net.context import Context
from tailrace.net.members.shards import owner_address, shard_of
from tailrace.wire.messages import FindCoordinatorRequest, FindCoordinatorResponse
from tailrace_gateway.gateway import Gateway

_GROUP = 0
_TOPICS = {_GROUP: GROUP_METADATA_TOPIC, 1: TRANSACTION_STATE_TOPIC}  # by key type
_Found = tuple[ErrorCode, str, int, str, int]  # error code, message, node id, host, port


async def handle(request: FindCoordinatorRequest, context: Context, gateway: Gateway) -> FindCoordinatorResponse:
    key_type = request.key_type if context.api_version >= 1 else _GROUP
    topic = _TOPICS.get(key_type)
    keys = request.coordinator_keys if context.api_version >= 4 else [request.key]
    if topic is not None:
        missing = await gateway.large.over_rows(request, partial(_first_missing, keys, topic, gateway))
        if missing is not None:
            await _on_its_way(missing, topic, gateway)
    if context.api_version < 4:
        code, message, node_id, host, port = _find(request.key, key_type, context, gateway)
        return FindCoordinatorResponse(error_code=code, error_message=message, node_id=node_id, host=host, port=port)
    return await gateway.large.over_rows(request, partial(_found, keys, key_type, context, gateway))


def _found(keys: Iterable[str], key_type: int, context: Context, gateway: Gateway) -> FindCoordinatorResponse:
    coordinators = []
    for key in keys:
        code, message, node_id, host, port = _find(key, key_type, context, gateway)
        coordinators.append(
            FindCoordinatorResponse.Coordinator(
                key=key, node_id=node_id, host=host, port=port, error_code=code, error_message=message
            )
        )
    return FindCoordinatorResponse(coordinators=coordinators)


def _first_missing(keys: Iterable[str], topic: str, gateway: Gateway) -> str | None:
    image = gateway.image
    return next((key for key in keys if not _has_owner(image, topic, key, gateway)), None)


async def _on_its_way(missing: str, topic: str, gateway: Gateway) -> None:
    """Waits for the first coordinator that is missing; the others mostly come with it."""
    if shard_of(gateway.image, topic, missing) < 0:
        gateway.create_internal_topic(topic)
    with contextlib.suppress(TimeoutError):
        await gateway.follower.wait_for(
            lambda newer: _has_owner(newer, topic, missing, gateway), gateway.limits.coordinator_wait_ms
        )


def _has_owner(image: MetadataImage, topic: str, key: str, gateway: Gateway) -> bool:
    """Whether the id's shard has an owner, and its partition a leader that lives."""
    shard = shard_of(image, topic, key)
    broker = image.brokers.get(image.leader(topic, shard))
    return broker is not None and not broker.fenced and owner_address(image, topic, shard, gateway.boot_id) is not None


def _find(key: str, key_type: int, context: Context, gateway: Gateway) -> _Found:
    topic = _TOPICS.get(key_type)
    if topic is None:
        return _refused(ErrorCode.INVALID_REQUEST, f"Key type {key_type} is not served.")
    image = gateway.image
    shard = shard_of(image, topic, key)
    if shard < 0:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic} is being created.")
    if not _has_owner(image, topic, key, gateway):
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    broker = image.brokers[image.leader(topic, shard)]
    endpoint = gateway.endpoint_of(broker, context.connection.session.identity)
    if endpoint is None:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator has no listener for clients.")
    return ErrorCode.NONE, "", broker.broker_id, *endpoint


def _refused(code: ErrorCode, message: str) -> _Found:
    return code, message, -1, "", -1
