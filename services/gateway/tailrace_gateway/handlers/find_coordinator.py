"""FindCoordinator v0-6. v1: key types. v4: many keys in one request (KIP-699). v6: share groups (KIP-932), not served.

The node named is the leader of the group's partition of __consumer_offsets, as in Apache Kafka; the gateway takes the
group's requests from any port. The topic is created on the first need. A coordinator that is on its way (the topic is
being created, its partition gets a leader, its shard an owner) is waited for a moment: clients that hear
COORDINATOR_NOT_AVAILABLE ask again after half a second only. A transactional id gets the one error that Java
and librdkafka both take for final at once: there are no transactions yet.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from tailrace.errors import ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.metadata.image import MetadataImage
from tailrace.net.context import Context
from tailrace.net.pieces import in_pieces
from tailrace.state import hashing_rows
from tailrace.wire.messages import FindCoordinatorResponse
from tailrace_gateway.forward.shards import owner_address, shard_of
from tailrace_gateway.gateway import Gateway

_GROUP, _TRANSACTION = 0, 1
_Found = tuple[ErrorCode, str, int, str, int]  # error code, message, node id, host, port


async def handle(request: Any, context: Context, gateway: Gateway) -> FindCoordinatorResponse:
    key_type = request.key_type if context.api_version >= 1 else _GROUP
    await _on_its_way(request.coordinator_keys if context.api_version >= 4 else [request.key], key_type, gateway)
    if context.api_version < 4:
        code, message, node_id, host, port = _find(request.key, key_type, context, gateway)
        return FindCoordinatorResponse(error_code=code, error_message=message, node_id=node_id, host=host, port=port)
    coordinators = []
    async for key in in_pieces(request.coordinator_keys, weigh=hashing_rows):
        code, message, node_id, host, port = _find(key, key_type, context, gateway)
        coordinators.append(
            FindCoordinatorResponse.Coordinator(
                key=key, node_id=node_id, host=host, port=port, error_code=code, error_message=message
            )
        )
    return FindCoordinatorResponse(coordinators=coordinators)


async def _on_its_way(keys: Sequence[str], key_type: int, gateway: Gateway) -> None:
    """Waits for the first coordinator that is missing; the others mostly come with it."""
    image = gateway.image
    missing: str | None = None
    async for key in in_pieces(keys if key_type == _GROUP else (), weigh=hashing_rows):
        if missing is None and not _has_owner(image, key, gateway):
            missing = key
    if missing is None:
        return
    if shard_of(image, missing) < 0:
        gateway.create_group_metadata_topic()
    with contextlib.suppress(TimeoutError):
        await gateway.follower.wait_for(
            lambda newer: _has_owner(newer, missing, gateway), gateway.limits.coordinator_wait_ms
        )


def _has_owner(image: MetadataImage, key: str, gateway: Gateway) -> bool:
    """Whether the group's shard has an owner, and its partition a leader that lives."""
    shard = shard_of(image, key)
    broker = image.brokers.get(image.leader(GROUP_METADATA_TOPIC, shard))
    return broker is not None and not broker.fenced and owner_address(image, shard, gateway.boot_id) is not None


def _find(key: str, key_type: int, context: Context, gateway: Gateway) -> _Found:
    if key_type == _TRANSACTION:
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Tailrace does not serve transactions yet.")
    if key_type != _GROUP:
        return _refused(ErrorCode.INVALID_REQUEST, f"Key type {key_type} is not served.")
    image = gateway.image
    shard = shard_of(image, key)
    if shard < 0:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{GROUP_METADATA_TOPIC} is being created.")
    if not _has_owner(image, key, gateway):
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    broker = image.brokers[image.leader(GROUP_METADATA_TOPIC, shard)]
    endpoint = gateway.endpoint_of(broker, context.connection.identity)
    if endpoint is None:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator has no listener for clients.")
    return ErrorCode.NONE, "", broker.broker_id, *endpoint


def _refused(code: ErrorCode, message: str) -> _Found:
    return code, message, -1, "", -1
