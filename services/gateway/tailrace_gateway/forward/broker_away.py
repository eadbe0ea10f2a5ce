"""Requests for a node that cannot be reached, and requests that no node takes yet.

They wait, within their timeout and a short limit, for the node to come back or for the image to name another leader of
one of their partitions. Then they are answered per partition with NOT_LEADER_OR_FOLLOWER and leader hints (KIP-951), so
that clients move at once instead of backing off against a dead port. Nothing here was sent to any broker before.
Rows without the right are refused as the broker would refuse them, so that nothing is said of their partitions.
What need not wait does not: a fetch session that died with its broker, and a producer id, which any broker gives.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from functools import partial
from typing import Any

from tailrace.access import rules
from tailrace.access.checks import Access, Left
from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import NO_LEADER
from tailrace.net.backoff import Backoff
from tailrace.net.dispatch import joined, topic_names
from tailrace.net.identity import Identity
from tailrace.net.members.endpoints import address_of
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace.wire.apis import ApiKey
from tailrace.wire.refuse import refuse
from tailrace_gateway.clients.client import ClientLink
from tailrace_gateway.forward.controller import NotSentError, UnansweredError, exchange, request_of
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.relay.requests import Frame
from tailrace_gateway.relay.slots import CORRELATION_MASK, FETCH, FETCH_FLEXIBLE

_CODES = {
    # Java takes any other error of a first InitProducerId for fatal.
    ApiKey.INIT_PRODUCER_ID: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ApiKey.ALTER_REPLICA_LOG_DIRS: ErrorCode.BROKER_NOT_AVAILABLE,
    ApiKey.DESCRIBE_LOG_DIRS: ErrorCode.BROKER_NOT_AVAILABLE,
}
_PARTITIONS = ("partition_data", "partitions", "partition_indexes")  # what the APIs call them
_HINTS_FROM: dict[int, int] = {ApiKey.PRODUCE: 10, ApiKey.FETCH: 16}
_NEVER = 1 << 15
# Once a node has been away for the whole limit, each further request waits only this long for it.
_GRACE_MS = 100.0


async def wait_for_node(gateway: Gateway, connection: ClientLink, frame: Frame) -> bytes | memoryview | None:
    """The refusal's frame, or None: the node took the request, or (acks=0) the connection was closed."""
    async with request_of(gateway, frame) as request:
        return await _wait_for_node(gateway, connection, frame, request)


async def _wait_for_node(
    gateway: Gateway, connection: ClientLink, frame: Frame, request: Any
) -> bytes | memoryview | None:
    if frame.key == ApiKey.INIT_PRODUCER_ID and (answer := await _from_another(gateway, connection, frame)):
        return answer
    left = await _permitted(gateway, connection, frame, request)
    refused_batches = connection.refused_batches
    if frame.key == ApiKey.PRODUCE and await gateway.large.over_rows(
        request, partial(refused_batches.precede, request)
    ):
        return await _refusal(gateway, connection, frame, request, left)
    if left.request is None:
        return await _refusal(gateway, connection, frame, request, left)
    node_id = connection.node_id
    now_ms = gateway.clock.monotonic_ms()
    limit_ms = gateway.away_since_ms.get(node_id, now_ms) + gateway.limits.node_wait_ms - now_ms
    limit_ms = max(limit_ms, _GRACE_MS)
    if frame.key == ApiKey.PRODUCE:
        limit_ms = min(limit_ms, max(request.timeout_ms, 0))
    until_ms = now_ms + limit_ms
    partitions = list(asked(left.request, frame.key, gateway.image))
    backoff = Backoff(gateway.clock, gateway.random, 20, 200)
    while True:
        # Before anything else: a follower serves consumers (KIP-392), so a node that is back may answer what moved.
        node = await gateway.open_node(connection)
        if node is not None:
            connection.refused_batches.clear()
            _hand_over(connection, frame, request)
            connection.adopt_node(node)
            node.write(frame.data)
            return None
        if moved(gateway.image, partitions, node_id) or _session_lost(request, frame):
            break
        left_ms = until_ms - gateway.clock.monotonic_ms()
        if left_ms <= 0:
            break
        try:
            await gateway.follower.wait_for(partial(operator.is_not, gateway.image), min(left_ms, backoff.next_ms()))
        except TimeoutError:
            continue
    return await _refusal(gateway, connection, frame, request, left)


async def _permitted(gateway: Gateway, connection: ClientLink, frame: Frame, request: Any) -> Left:
    """What of the request the client may do, as the broker would ask."""
    session = connection.session
    if not session.restricted:
        return Left(request)
    names = topic_names(lambda: gateway.image)
    access = Access(session.authorized, session.authorized_by_resource_type, frame.version, names)
    return await gateway.large.over_rows(request, partial(rules.before, frame.key, request, access, rules.OF_BROKERS))


async def _refusal(
    gateway: Gateway, connection: ClientLink, frame: Frame, request: Any, left: Left
) -> bytes | memoryview | None:
    for part in left.refused:
        if part.denied is not None:
            connection.session.on_denied(frame.key, part.denied)
    if frame.key == ApiKey.PRODUCE:
        if request.acks == 0:
            connection.refuse(f"node {connection.node_id} is away and a Produce with acks=0 cannot be answered")
            return None
        await gateway.large.over_rows(request, partial(connection.refused_batches.refused, request))

    def work() -> bytes | memoryview:
        response = _refused(request, left, frame, gateway, connection.session.identity)
        return codec.encode_large_response(response, frame.version, frame.correlation_id)

    return await gateway.large.over_rows(request, work)


def _hand_over(connection: ClientLink, frame: Frame, request: Any) -> None:
    """The collected request becomes the node's: its slot, the newest, turns into the mark of a relayed one."""
    slots = connection.slots
    assert slots[-1] is frame.slot
    slots.pop()
    row = connection.requests.table[frame.key]
    mark = frame.correlation_id & CORRELATION_MASK
    if frame.key == ApiKey.FETCH:
        mark |= FETCH_FLEXIBLE if frame.version >= row.flexible_from else FETCH
    if frame.key != ApiKey.PRODUCE or request.acks:
        slots.append(mark)
    else:
        connection.times.forget_newest()


def asked(request: Any, key: int, image: MetadataImage) -> Iterator[tuple[str, int]]:
    """The partitions a data request names; those of unknown topics are left out."""
    for topic in (request.topic_data if key == ApiKey.PRODUCE else getattr(request, "topics", None)) or ():
        name = getattr(topic, "name", "") or getattr(topic, "topic", "") or image.topic_names.get(topic.topic_id, "")
        rows = next((rows for field in _PARTITIONS if (rows := getattr(topic, field, None))), ())
        for partition in rows:
            number = getattr(partition, "partition_index", None)
            if number is None:
                number = getattr(partition, "index", None)
            if number is None:
                number = getattr(partition, "partition", partition)
            yield name, number


def moved(image: MetadataImage, partitions: list[tuple[str, int]], node_id: int) -> bool:
    """Whether a partition asked for is led by another node by now: then waiting for the rest would hold that one up."""
    return any(image.leader(name, number) not in {NO_LEADER, node_id} for name, number in partitions)


def _session_lost(request: Any, frame: Frame) -> bool:
    """KIP-227: a session lives in its broker's memory, so it has ended with it."""
    return bool(frame.key == ApiKey.FETCH and frame.version >= 7 and request.session_id and request.session_epoch > 0)


async def _from_another(gateway: Gateway, connection: ClientLink, frame: Frame) -> bytes | memoryview | None:
    """A producer id from any live broker, as the connection's own is away."""
    for broker in gateway.image.live_brokers():
        address = address_of(broker.endpoints, gateway.boot_id)
        if broker.broker_id != connection.node_id and address is not None:
            with contextlib.suppress(NotSentError, UnansweredError):  # an id that nobody got is merely lost
                return await exchange(connection, address, frame.data, gateway.limits.connect_ms)
    return None


def _refused(request: Any, left: Left, frame: Frame, gateway: Gateway, identity: Identity) -> Any:
    if _session_lost(request, frame):
        return m.FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])  # it names all again
    response = None
    if left.request is not None:
        code = _CODES.get(ApiKey(frame.key), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        response = _refused_rows(left.request, frame, code)
        if frame.version >= _HINTS_FROM.get(frame.key, _NEVER):
            _hint(response, frame.key, gateway, identity)
    for part in left.refused:
        rows = _refused_rows(part.request, frame, part.code)
        response = rows if response is None else joined(response, rows)
    return response


def _refused_rows(request: Any, frame: Frame, code: ErrorCode) -> Any:
    if frame.key == ApiKey.FETCH:
        return _refused_fetch(request, code)
    return refuse(request, frame.key, frame.version, code)


def _hint(response: Any, key: int, gateway: Gateway, identity: Identity) -> None:
    """KIP-951: who leads now, and where, so that the client need not ask for metadata."""
    image, leaders = gateway.image, set()
    for topic in response.responses:
        name = (topic.name if key == ApiKey.PRODUCE else topic.topic) or image.topic_names.get(topic.topic_id, "")
        for partition in topic.partition_responses if key == ApiKey.PRODUCE else topic.partitions:
            now = image.partition(name, partition.index if key == ApiKey.PRODUCE else partition.partition_index)
            if now is not None and now.leader not in {NO_LEADER, identity.node_id}:
                hint = partition.LeaderIdAndEpoch
                partition.current_leader = hint(leader_id=now.leader, leader_epoch=now.leader_epoch)
                leaders.add(now.leader)
    endpoints = []
    for leader in sorted(leaders & image.brokers.keys()):
        broker = image.brokers[leader]
        at = gateway.endpoint_of(broker, identity)
        if at is not None:
            endpoints.append(response.NodeEndpoint(node_id=leader, host=at[0], port=at[1], rack=broker.rack))
    response.node_endpoints = endpoints


def _refused_fetch(request: Any, code: ErrorCode) -> Any:
    topic = m.FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData
    return m.FetchResponse(
        responses=[
            topic(
                topic=asked_topic.topic,
                topic_id=asked_topic.topic_id,
                partitions=[
                    partition(
                        partition_index=p.partition,
                        error_code=code,
                        high_watermark=-1,
                        aborted_transactions=None,
                        records=b"",
                    )
                    for p in asked_topic.partitions
                ],
            )
            for asked_topic in request.topics
        ]
    )
