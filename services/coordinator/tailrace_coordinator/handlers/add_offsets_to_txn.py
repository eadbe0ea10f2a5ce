"""AddOffsetsToTxn v0-4: a group's partition of `__consumer_offsets` becomes one of the transaction (KIP-98).

v2 PRODUCER_FENCED (KIP-588). v4 TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.state import ProducerIdAndEpoch
from tailrace.wire.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.handlers.asking import add, of_version


async def handle(
    request: AddOffsetsToTxnRequest, context: Context, coordinator: Coordinator
) -> AddOffsetsToTxnResponse:
    """Answers once the partition is one of the transaction."""
    code = ErrorCode.NONE
    try:
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        partition = await coordinator.offsets_partition(request.group_id)
        producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        await add(coordinator, request.transactional_id, producer, [partition], 0)
    except ApiError as refused:
        code = of_version(refused.code, context.api_version, since=2)
    return AddOffsetsToTxnResponse(error_code=code)
