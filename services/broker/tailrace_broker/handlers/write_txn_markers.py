"""WriteTxnMarkers v1-2 (KIP-98): the outcome of transactions, written into the partitions that are led here.

From transaction coordinators, and from admins and the REST API, which end a hanging transaction (KIP-664, see
transactions/abort.py). v2: the transaction version, from 2 on a marker's epoch must be above the producer's (KIP-1228).
All markers of a request for one partition are appended with one write; each is answered when all in-sync replicas have
it, or after request.timeout.ms. A replica that is not here is UNKNOWN_TOPIC_OR_PARTITION, one that is not led here
NOT_LEADER_OR_FOLLOWER. A coordinator epoch above what the controller gave, as far as this broker has heard, is
TRANSACTION_COORDINATOR_FENCED: the coordinator sends the marker again.

Markers for `__consumer_offsets` go on to the owner of the shard, who writes them with what they decide.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from tailrace.errors import ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace.log.segment.transactions import Marker, marker_batch
from tailrace.net.address import Address
from tailrace.net.client import Disconnected
from tailrace.net.context import Context
from tailrace.net.identity import COORDINATOR_CLIENT_ID
from tailrace.records.batch import WritableBytes
from tailrace.records.markers import ABORT, COMMIT
from tailrace.wire.malformed import Malformed
from tailrace.wire.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tailrace_broker.handlers.rows import each_row
from tailrace_broker.transactions.abort import TxnMarker, check_abort, check_request
from tailrace_broker.waiting.offset_wait import committed

if TYPE_CHECKING:
    from tailrace.clock import Clock
    from tailrace.metadata.image import MetadataImage
    from tailrace.net.metadata.follower import MetadataFollower
    from tailrace_broker.dynamic_config import DynamicBrokerConfig
    from tailrace_broker.partitions.partition import Partition
    from tailrace_broker.partitions.topics import Topics
    from tailrace_broker.partitions.wakeups import WakeUps
    from tailrace_broker.transactions.coordinators import Coordinators

_Marker = WriteTxnMarkersRequest.WritableTxnMarker
_Result = WriteTxnMarkersResponse.WritableTxnMarkerResult
_Topic = _Result.WritableTxnMarkerTopicResult
_Row = _Topic.WritableTxnMarkerPartitionResult
# What says that a shard has another owner by now: the marker is sent again, as for a partition with another leader.
_OTHER_OWNER = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class MarkerRow(NamedTuple):
    """A marker for one partition, and the row that answers it."""

    marker: TxnMarker
    row: _Row


class PendingMarkers(NamedTuple):
    """Markers that are in a partition's log and wait for its replicas."""

    partition: Partition
    offset: int
    rows: list[_Row]


class Sorted(NamedTuple):
    """The markers of a request by where they go."""

    here: dict[Partition, list[MarkerRow]]
    elsewhere: dict[Address, list[MarkerRow]]  # owners of shards of __consumer_offsets


async def handle(
    request: WriteTxnMarkersRequest,
    context: Context,
    topics: Topics,
    wakeups: WakeUps,
    coordinators: Coordinators,
    follower: MetadataFollower,
    config: DynamicBrokerConfig,
    clock: Clock,
) -> WriteTxnMarkersResponse:
    """One row for each marker and partition."""
    is_service = context.connection.session.is_service
    if is_service and context.client_id == COORDINATOR_CLIENT_ID:
        latest = _latest_epoch(follower.image)
    else:
        latest = await _check_abort(request, topics, coordinators, only_hanging=is_service)
    found, results = Sorted({}, {}), []
    for marker in request.markers:
        answered = []
        for asked in marker.topics:
            rows = []
            for index in asked.partition_indexes:
                row = _Row(partition_index=index, error_code=0)
                if marker.coordinator_epoch > latest:
                    row.error_code = int(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
                else:
                    _sort(topics, coordinators, asked.name, MarkerRow(marker, row), found)
                rows.append(row)
            answered.append(_Topic(name=asked.name, partitions=rows))
        results.append(_Result(producer_id=marker.producer_id, topics=answered))
    forwarded = [_forward(coordinators, address, written) for address, written in found.elsewhere.items()]
    written_here = _write(topics.node_id, wakeups, clock, found.here, config.current.request_timeout_ms)
    await asyncio.gather(written_here, *forwarded)
    return WriteTxnMarkersResponse(markers=results)


async def _check_abort(
    request: WriteTxnMarkersRequest, topics: Topics, coordinators: Coordinators, *, only_hanging: bool
) -> int:
    """The coordinator epoch of what a client or gateway asks.

    A partition that is not led here is refused with the other rules.
    """
    marker, topic, index = check_request(request)
    partition, _ = topics.leading(topic.encode(), index, by_id=False)
    if partition is not None:
        await check_abort(partition, marker, coordinators, only_hanging=only_hanging)
    return int(marker.coordinator_epoch)


def _latest_epoch(image: MetadataImage) -> int:
    """The latest epoch that the controller gave a transaction coordinator, 0 before the first."""
    shards = image.shards.items()
    return max((shard.shard_epoch for (topic, _), shard in shards if topic == TRANSACTION_STATE_TOPIC), default=0)


def _sort(topics: Topics, coordinators: Coordinators, topic: str, written: MarkerRow, found: Sorted) -> None:
    """Puts the marker beside those that go the same way, or refuses it."""
    row = written.row
    known = topics.by_name.get(topic.encode())
    partition = None if known is None else known.partitions.get(row.partition_index)
    if partition is None or partition.offline:
        row.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    elif partition.leader != topics.node_id:
        row.error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    elif not partition.internal:
        found.here.setdefault(partition, []).append(written)
    elif topic != GROUP_METADATA_TOPIC:  # no transaction has it
        row.error_code = int(ErrorCode.INVALID_TOPIC_EXCEPTION)
    else:
        address = coordinators.owner(topic, row.partition_index)
        if address is None:
            row.error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            found.elsewhere.setdefault(address, []).append(written)


# -- the partitions led here -----------------------------------------------------------------------------------------


async def _write(
    node_id: int, wakeups: WakeUps, clock: Clock, markers: dict[Partition, list[MarkerRow]], timeout_ms: float
) -> None:
    """Appends them and waits for the replicas of all of them together."""
    appended = []
    async for partition, written in each_row(markers.items()):
        if partition.leader != node_id:
            _refuse(written, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif not partition.enough_replicas:
            _refuse(written, ErrorCode.NOT_ENOUGH_REPLICAS)
        elif (one := _append(wakeups, partition, written, clock.wall_ms())) is not None:
            appended.append(one)
    codes = await committed([(one.partition, one.offset) for one in appended], wakeups.purgatory, timeout_ms)
    for one, code in zip(appended, codes, strict=True):
        for row in one.rows:
            row.error_code = code


def _append(wakeups: WakeUps, partition: Partition, written: list[MarkerRow], now_ms: int) -> PendingMarkers | None:
    """Writes a partition's markers with one call; None if all are refused."""
    committed = partition.high_watermark
    batches: list[WritableBytes] = []
    for marker, _ in written:
        outcome = Marker(COMMIT if marker.transaction_result else ABORT, marker.coordinator_epoch)
        batches.append(
            marker_batch(marker.producer_id, marker.producer_epoch, outcome, now_ms, marker.transaction_version or 0)
        )
    last_offset, rows = -1, []
    for one, answer in zip(written, partition.append(batches, now_ms, from_client=False), strict=True):
        one.row.error_code = int(answer.error_code)
        if not answer.error_code:
            last_offset = max(last_offset, answer.last_offset)
            rows.append(one.row)
    wakeups.appended(partition, committed)
    return PendingMarkers(partition, last_offset, rows) if rows else None


# -- the shards of coordinators --------------------------------------------------------------------------------------


async def _forward(coordinators: Coordinators, address: Address, markers: list[MarkerRow]) -> None:
    """Has the owner of shards of `__consumer_offsets` write them."""
    by_marker: dict[int, tuple[TxnMarker, list[_Row]]] = {}
    for marker, row in markers:
        by_marker.setdefault(id(marker), (marker, []))[1].append(row)
    try:
        response = await coordinators.forward(address, _forwarded(list(by_marker.values())))
    except (Disconnected, Malformed):
        _refuse(markers, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return
    except TimeoutError:
        _refuse(markers, ErrorCode.REQUEST_TIMED_OUT)
        return
    answers = iter(response.markers)
    for _, rows in by_marker.values():
        answer = next(answers, None)
        codes = {} if answer is None else {r.partition_index: r.error_code for t in answer.topics for r in t.partitions}
        for row in rows:
            code = codes.get(row.partition_index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            row.error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _OTHER_OWNER else code)


def _forwarded(markers: list[tuple[TxnMarker, list[_Row]]]) -> WriteTxnMarkersRequest:
    """The same markers for the shards of one owner."""
    return WriteTxnMarkersRequest(
        markers=[
            _Marker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.transaction_result,
                topics=[
                    _Marker.WritableTxnMarkerTopic(
                        name=GROUP_METADATA_TOPIC, partition_indexes=[row.partition_index for row in rows]
                    )
                ],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version or 0,
            )
            for marker, rows in markers
        ]
    )


def _refuse(written: list[MarkerRow], code: ErrorCode) -> None:
    for one in written:
        one.row.error_code = int(code)
