"""InitProducerId v0-5 with a transactional id: fences an earlier producer of it, and gives an epoch.

v3 the producer says which id and epoch it has, after an error that it can go on from (KIP-360). v4 PRODUCER_FENCED
(KIP-588). v5 TRANSACTION_ABORTABLE (KIP-890). Without a transactional id any broker answers.
"""

from __future__ import annotations

from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.state import ProducerIdAndEpoch
from tailrace.wire.messages import InitProducerIdRequest, InitProducerIdResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.handlers.asking import of_version, patiently, with_producer_ids
from tailrace_coordinator.transactions.machine import Init
from tailrace_coordinator.transactions.state import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


async def handle(request: InitProducerIdRequest, context: Context, coordinator: Coordinator) -> InitProducerIdResponse:
    """Answers the producer id and its epoch. CONCURRENT_TRANSACTIONS while an earlier transaction is being ended."""
    transactional_id, producer = request.transactional_id, ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    if context.api_version >= 3:
        producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    if not transactional_id or (producer.producer_id == NO_PRODUCER_ID) != (
        producer.producer_epoch == NO_PRODUCER_EPOCH
    ):
        raise ApiError(ErrorCode.INVALID_REQUEST)

    async def ask(new_producer_id: int) -> Any:
        init = Init(transactional_id, request.transaction_timeout_ms, producer, new_producer_id)
        return await coordinator.transactions.ask(
            transactional_id, lambda machine, now_ms, token: machine.init_producer_id(now_ms, token, init)
        )

    try:
        found = await patiently(coordinator, transactional_id, lambda: with_producer_ids(coordinator, ask))
    except ApiError as refused:
        code = of_version(refused.code, context.api_version, since=4)
        return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
    return InitProducerIdResponse(error_code=0, producer_id=found.producer_id, producer_epoch=found.producer_epoch)
