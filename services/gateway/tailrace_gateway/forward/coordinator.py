"""Group and offset APIs: to the coordinator that owns the group's shard.

A request about groups of one owner is relayed as it is. DescribeGroups, DeleteGroups and OffsetFetch v8+ may name
groups of several owners: they are split and their answers joined in the order asked. ListGroups is answered per node,
from the shards whose offsets partitions the node leads, because kafka-python adds the nodes' answers up.
"""

from __future__ import annotations

import asyncio
import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from tailrace.errors import ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.pieces import in_pieces
from tailrace.state import hashing_rows
from tailrace.wire import messages as m
from tailrace.wire.apis import ApiKey
from tailrace.wire.codec import Malformed
from tailrace.wire.refuse import refuse
from tailrace_gateway.forward.controller import NotSentError, UnansweredError, exchange, refusal, request_of
from tailrace_gateway.forward.shards import owner_address, shard_epoch_of, shard_of
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.relay import peek
from tailrace_gateway.relay.client import ClientLink
from tailrace_gateway.relay.node import CLIENT_ID
from tailrace_gateway.relay.requests import Frame

# Every client since 2016 takes NOT_COORDINATOR as "find the coordinator again", for every group API.
_AWAY = ErrorCode.NOT_COORDINATOR


async def to_coordinator(gateway: Gateway, connection: ClientLink, frame: Frame) -> bytes:
    """Relays, splits or refuses; always an answer frame."""
    if frame.key == ApiKey.LIST_GROUPS:
        return await _list_groups(gateway, connection, frame)
    if frame.key in _SPLITS and not (frame.key == ApiKey.OFFSET_FETCH and frame.version < 8):
        return await _split(gateway, connection, frame)
    flexible = frame.version >= connection.requests.table[frame.key].flexible_from
    try:
        group_id = peek.group_id(memoryview(frame.data), frame.body_offset, flexible)
    except (IndexError, ValueError, struct.error) as bad:
        raise Malformed(f"api key {frame.key} version {frame.version} has no group id") from bad
    return await _relay(gateway, connection, frame, shard_of(gateway.image, group_id))


async def _owner(gateway: Gateway, shard: int) -> Address | None:
    """The owner's address; a shard between two owners is waited for a moment."""
    address = owner_address(gateway.image, shard, gateway.boot_id)
    if address is None and shard >= 0:
        try:
            await gateway.follower.wait_for(
                lambda image: owner_address(image, shard, gateway.boot_id) is not None,
                gateway.limits.coordinator_wait_ms,
            )
        except TimeoutError:
            return None
        address = owner_address(gateway.image, shard, gateway.boot_id)
    return address


async def _relay(gateway: Gateway, connection: ClientLink, frame: Frame, shard: int) -> bytes:
    address = await _owner(gateway, shard)
    if address is None:
        return await refusal(gateway, frame, _AWAY)
    connection.owner = (shard, shard_epoch_of(gateway.image, shard))
    connection.owner_address = address
    try:
        return await exchange(connection, address, frame.data, gateway.limits.connect_ms)
    except (NotSentError, UnansweredError):
        # Lost with the coordinator: asking the next one again is safe for every group API, and what a client does.
        return await refusal(gateway, frame, _AWAY)
    finally:
        connection.owner = None


def owner_changed(connection: ClientLink, image: MetadataImage) -> None:
    """Breaks off a question to an owner that is none any more (a member may wait minutes in JoinGroup)."""
    if connection.owner is None or connection.owner_address is None:
        return
    shard, shard_epoch = connection.owner
    if shard_epoch_of(image, shard) != shard_epoch:
        open_exchange = connection.exchanges.pop(connection.owner_address, None)
        if open_exchange is not None:
            open_exchange.break_off()


# -- several groups in one request ------------------------------------------------------------------------------------

_Split = tuple[Callable[[Any], Sequence[Any]], Callable[[Any, list[Any]], Any], Callable[[Any], list[Any]], str]


def _describe_part(request: Any, groups: list[Any]) -> Any:
    return m.DescribeGroupsRequest(groups=groups, include_authorized_operations=request.include_authorized_operations)


def _delete_part(request: Any, groups: list[Any]) -> Any:
    return m.DeleteGroupsRequest(groups_names=groups)


def _fetch_part(request: Any, groups: list[Any]) -> Any:
    return m.OffsetFetchRequest(groups=groups, require_stable=request.require_stable)


# API -> (the groups asked for, a request for some of them, the answer's list, that list's name)
_SPLITS: dict[int, _Split] = {
    ApiKey.DESCRIBE_GROUPS: (lambda q: q.groups, _describe_part, lambda a: a.groups, "groups"),
    ApiKey.DELETE_GROUPS: (lambda q: q.groups_names, _delete_part, lambda a: a.results, "results"),
    ApiKey.OFFSET_FETCH: (lambda q: q.groups, _fetch_part, lambda a: a.groups, "groups"),
}


async def _split(gateway: Gateway, connection: ClientLink, frame: Frame) -> bytes:
    async with request_of(gateway, frame) as request:
        groups = _SPLITS[frame.key][0](request)
        by_owner = await _by_owner(gateway, groups)
        if len(by_owner) != 1 or None in by_owner:
            return await _ask_all(gateway, connection, frame, request, by_owner)
        first = _id(groups[0])
    return await _relay(gateway, connection, frame, shard_of(gateway.image, first))


async def _by_owner(gateway: Gateway, groups: Sequence[Any]) -> dict[Address | None, Sequence[int]]:
    """The places of the groups in the request, by who owns them."""
    shards = array("i")  # as numbers and not as objects, which take long to free
    async for group in in_pieces(groups, weigh=lambda group: hashing_rows(_id(group))):
        shards.append(shard_of(gateway.image, _id(group)))
    owners = {shard: await _owner(gateway, shard) for shard in set(shards)}
    by_owner: dict[Address | None, Any] = {owner: array("i") for owner in owners.values()}
    if len(by_owner) > 1:
        async for place, shard in in_pieces(enumerate(shards)):
            by_owner[owners[shard]].append(place)
        return by_owner
    return dict.fromkeys(by_owner, range(len(groups)))


def _id(group: Any) -> str:
    found: str = group if isinstance(group, str) else group.group_id
    return found


async def _ask_all(
    gateway: Gateway, connection: ClientLink, frame: Frame, request: Any, by_owner: dict[Address | None, Sequence[int]]
) -> bytes:
    groups_of, part, results_of, name = _SPLITS[frame.key]
    groups = groups_of(request)
    parts = [
        (address, part(request, [groups[place] async for place in in_pieces(places)]))
        for address, places in by_owner.items()
    ]
    asks = [_ask(gateway, connection, frame, address, asked) for address, asked in parts]
    joined: list[Any] = [None] * len(groups)
    answer: Any = None  # of a request without groups
    for places, answer in zip(by_owner.values(), await asyncio.gather(*asks), strict=True):
        async for place, result in in_pieces(zip(places, results_of(answer), strict=False)):
            joined[place] = result
        gateway.large.let_go(answer)
    response: Any = refuse(part(request, []), frame.key, frame.version, ErrorCode.NONE)
    setattr(response, name, [result async for result in in_pieces(joined) if result is not None])
    del joined, answer
    return await gateway.large.encode(response, frame.version, frame.correlation_id)


async def _ask(gateway: Gateway, connection: ClientLink, frame: Frame, address: Address | None, request: Any) -> Any:
    """One owner's part of the answer, refused if it cannot be had."""
    large = gateway.large
    if address is not None:
        try:
            data = await large.encode_request(request, frame.version, frame.correlation_id, CLIENT_ID)
            answer = await exchange(connection, address, data, gateway.limits.connect_ms)
            return await large.decode_response(frame.key, frame.version, answer)
        except (NotSentError, UnansweredError):
            pass
    return await large.refuse(request, frame.key, frame.version, _AWAY)


async def _list_groups(gateway: Gateway, connection: ClientLink, frame: Frame) -> bytes:
    image = gateway.image
    topic = image.topic(GROUP_METADATA_TOPIC)
    partitions = topic.partitions if topic is not None else ()
    led = {number for number, partition in enumerate(partitions) if partition.leader == connection.node_id}
    owners = {owner_address(image, shard, gateway.boot_id) for shard in led}
    response = m.ListGroupsResponse(error_code=0, groups=[])
    async with request_of(gateway, frame) as request:
        for address in owners:
            part = await _ask(gateway, connection, frame, address, request)
            response.error_code = response.error_code or part.error_code
            async for group in in_pieces(part.groups, weigh=lambda group: hashing_rows(group.group_id)):
                if shard_of(image, group.group_id) in led:
                    response.groups.append(group)
            gateway.large.let_go(part)
    if response.error_code:
        # KIP-222: one shard that cannot answer makes the list incomplete, and says so.
        gateway.large.let_go(response)
        response.error_code, response.groups = ErrorCode.COORDINATOR_NOT_AVAILABLE, []
    return await gateway.large.encode(response, frame.version, frame.correlation_id)
