"""Admin.abortTransaction (KIP-664): what a client's WriteTxnMarkers may end, which is one open transaction.

Without these rules a marker of a made-up coordinator epoch would undo a commit that the producer was told of: the
partition refuses the coordinator's own marker after it. An open transaction of which no coordinator knows hangs; one
that is ongoing is aborted on this partition only, as in Apache Kafka. The gateway's REST API ends what hangs alone.
"""

from __future__ import annotations

from typing import TypeAlias

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.client import Disconnected
from tailrace.wire.malformed import Malformed
from tailrace.wire.messages import WriteTxnMarkersRequest
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.transactions.coordinated import ONGOING, AllCoordinators, coordinated
from tailrace_broker.transactions.open_transactions import Place

TxnMarker: TypeAlias = WriteTxnMarkersRequest.WritableTxnMarker


def check_request(request: WriteTxnMarkersRequest) -> tuple[TxnMarker, str, int]:
    """The marker, topic and partition of the request. INVALID_REQUEST unless it names one partition, as Kafka's does.

    CLUSTER_AUTHORIZATION_FAILED for a COMMIT, which only coordinators write.
    """
    markers = request.markers
    if len(markers) != 1 or len(markers[0].topics) != 1 or len(markers[0].topics[0].partition_indexes) != 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a client aborts one transaction on one partition with a request")
    (marker,) = markers
    if marker.transaction_result:
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only transaction coordinators commit")
    (topic,) = marker.topics
    return marker, topic.name, topic.partition_indexes[0]


async def check_abort(
    partition: Partition, marker: TxnMarker, coordinators: AllCoordinators | None, *, only_hanging: bool
) -> None:
    """Raises ApiError unless the marker ends an open transaction that no coordinator has decided.

    COORDINATOR_NOT_AVAILABLE while that cannot be known. only_hanging: an ongoing one is refused, too.
    """
    first_offset = _open_offset(partition, marker)
    if coordinators is None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    try:
        known = await coordinated(coordinators, [marker.producer_id])
    except (Disconnected, TimeoutError, Malformed) as failed:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(failed)) from failed
    state = known.get(Place(partition.topic, partition.index, marker.producer_id))
    if state is not None and (only_hanging or state != ONGOING):
        raise ApiError(ErrorCode.INVALID_TXN_STATE, f"its coordinator has the transaction: {state}")
    if _open_offset(partition, marker) != first_offset:
        raise ApiError(ErrorCode.INVALID_TXN_STATE, "the transaction has ended meanwhile")


def _open_offset(partition: Partition, marker: TxnMarker) -> int:
    """The first offset of the open transaction that the marker ends.

    INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED if it does not end what is open.
    """
    try:
        entry = partition.log.producers.entries.get(marker.producer_id)
    except OSError as failed:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failed)) from failed
    if entry is None or entry.current_txn_first_offset < 0:
        message = f"producer {marker.producer_id} has no open transaction on this partition"
        raise ApiError(ErrorCode.INVALID_TXN_STATE, message)
    if marker.producer_epoch != entry.producer_epoch:
        message = f"producer {marker.producer_id} has epoch {entry.producer_epoch}, the marker {marker.producer_epoch}"
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
    if marker.coordinator_epoch > max(0, entry.coordinator_epoch):
        message = f"coordinator epoch {marker.coordinator_epoch} is not this producer's: {entry.coordinator_epoch}"
        raise ApiError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, message)
    return entry.current_txn_first_offset
