"""EndTxn v0-5. v2 PRODUCER_FENCED (KIP-588). v5 the producer goes on with the epoch in the answer (KIP-890).

The answer leaves when the outcome is in the log. The markers follow.
"""

from __future__ import annotations

from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.state import ProducerIdAndEpoch
from tailrace.wire.messages import EndTxnRequest, EndTxnResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.handlers.asking import of_version, patiently, with_producer_ids
from tailrace_coordinator.transactions.end import End

_NEXT_EPOCH_FROM = 5


async def handle(request: EndTxnRequest, context: Context, coordinator: Coordinator) -> EndTxnResponse:
    """Answers once the transaction is committed or aborted for good."""
    transactional_id, producer = (
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
    )
    version = 2 if context.api_version >= _NEXT_EPOCH_FROM else 0

    async def ask(new_producer_id: int) -> Any:
        end = End(transactional_id, producer, request.committed, version, new_producer_id)
        return await coordinator.transactions.ask(
            transactional_id, lambda machine, now_ms, token: machine.end(now_ms, token, end)
        )

    try:
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        found = await patiently(coordinator, transactional_id, lambda: with_producer_ids(coordinator, ask))
    except ApiError as refused:
        return EndTxnResponse(error_code=of_version(refused.code, context.api_version, since=2))
    return EndTxnResponse(error_code=0, producer_id=found.producer_id, producer_epoch=found.producer_epoch)
