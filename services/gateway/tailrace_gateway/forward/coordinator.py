"""Group, offset and transaction APIs: to the coordinator that owns the shard of the group or of the transactional id.

A request about ids of one owner is relayed as it is; `several_ids.py` has the APIs that may name ids of several owners,
`listed.py` those that name none. TxnOffsetCommit goes by its group: the offsets are the group coordinator's.
"""

from __future__ import annotations

import struct
from typing import Final

from tailrace.errors import ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace.metadata.image import MetadataImage
from tailrace.net.members.shards import shard_epoch_of, shard_of
from tailrace.wire import codec
from tailrace.wire.apis import ApiKey
from tailrace.wire.codec import Malformed
from tailrace.wire.messages import AddPartitionsToTxnResponse
from tailrace_gateway.clients.client import ClientLink
from tailrace_gateway.forward import listed, several_ids
from tailrace_gateway.forward.controller import NotSentError, UnansweredError, exchange, refusal
from tailrace_gateway.forward.owners import AWAY, owner
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.relay import peek
from tailrace_gateway.relay.requests import Frame

_BY_TRANSACTIONAL_ID = frozenset(
    {ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN}
)
_OF_BROKERS_FROM: Final = 4  # AddPartitionsToTxn: of many transactions, of partition leaders (KIP-890)


def is_transactional(connection: ClientLink, frame: Frame) -> bool:
    """Whether an InitProducerId names a transactional id: any node gives a producer id without one."""
    try:
        return peek.transactional_id(memoryview(frame.data), frame.body_offset, _is_flexible(connection, frame))
    except (IndexError, ValueError, struct.error) as bad:
        raise Malformed(f"InitProducerId version {frame.version} ends before its transactional id") from bad


async def to_coordinator(gateway: Gateway, connection: ClientLink, frame: Frame) -> bytes | memoryview:
    """Relays, splits or refuses; always an answer frame."""
    if frame.key == ApiKey.ADD_PARTITIONS_TO_TXN and frame.version >= _OF_BROKERS_FROM:
        closed = AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return codec.encode_response(closed, frame.version, frame.correlation_id)
    if (listing := listed.LISTINGS.get(frame.key)) is not None:
        return await listed.answer(gateway, connection, frame, listing)
    if (split := several_ids.split_of(frame)) is None:
        return await _relay(gateway, connection, frame, *_topic_and_id(connection, frame))
    only = await several_ids.answer(gateway, connection, frame, split)
    if not isinstance(only, several_ids.Only):
        return only
    return await _relay(gateway, connection, frame, split.topic, only.request_id)


def _is_flexible(connection: ClientLink, frame: Frame) -> bool:
    return frame.version >= connection.requests.table[frame.key].flexible_from


def _topic_and_id(connection: ClientLink, frame: Frame) -> tuple[str, str]:
    """The sharded topic, and the id in the request that decides its shard there."""
    view, body, flexible = memoryview(frame.data), frame.body_offset, _is_flexible(connection, frame)
    try:
        if frame.key == ApiKey.TXN_OFFSET_COMMIT:
            return GROUP_METADATA_TOPIC, peek.second_string(view, body, flexible)
        topic = TRANSACTION_STATE_TOPIC if frame.key in _BY_TRANSACTIONAL_ID else GROUP_METADATA_TOPIC
        return topic, peek.first_string(view, body, flexible)
    except (IndexError, ValueError, struct.error) as bad:
        raise Malformed(f"api key {frame.key} version {frame.version} has no id of a group or transaction") from bad


async def _relay(
    gateway: Gateway, connection: ClientLink, frame: Frame, topic: str, request_id: str
) -> bytes | memoryview:
    shard = shard_of(gateway.image, topic, request_id)
    address = await owner(gateway, topic, shard)
    if address is None:
        return await refusal(gateway, frame, AWAY)
    connection.owner = (topic, shard, shard_epoch_of(gateway.image, topic, shard))
    connection.owner_address = address
    try:
        return await exchange(connection, address, frame.data, gateway.limits.connect_ms)
    except (NotSentError, UnansweredError):
        # Lost with the coordinator: the client asks the next one again. That is safe for every one of these APIs. A
        # repeated EndTxn or InitProducerId with a producer id is known by its epoch (KIP-360, KIP-890); one that has
        # no producer id gets one more epoch; partitions and offsets are added once, however often they are named.
        return await refusal(gateway, frame, AWAY)
    finally:
        connection.owner = None


def owner_changed(connection: ClientLink, image: MetadataImage) -> None:
    """Breaks off a question to an owner that is none any more (a member may wait minutes in JoinGroup)."""
    if connection.owner is None or connection.owner_address is None:
        return
    topic, shard, shard_epoch = connection.owner
    if shard_epoch_of(image, topic, shard) != shard_epoch:
        open_exchange = connection.exchanges.pop(connection.owner_address, None)
        if open_exchange is not None:
            open_exchange.break_off()
