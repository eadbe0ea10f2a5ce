"""DescribeTransactions v0 (KIP-664). TRANSACTIONAL_ID_NOT_FOUND for one that nobody knows."""

from __future__ import annotations

from tailrace.coordination.transaction_records import TransactionState
from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.net.limits.answer_budget import AnswerBudget
from tailrace.wire.messages import DescribeTransactionsRequest, DescribeTransactionsResponse
from tailrace_coordinator.coordinator import Coordinator

_ROW = DescribeTransactionsResponse.TransactionState
_ROW_BYTES, _TOPIC_BYTES, _PARTITION_BYTES = 64, 256, 4


async def handle(
    request: DescribeTransactionsRequest, context: Context, coordinator: Coordinator
) -> DescribeTransactionsResponse:
    """Answers each transactional id; MESSAGE_TOO_LARGE for one that the answer has no room for."""
    found = await coordinator.transactions.ask_each(
        request.transactional_ids, lambda ids, machine, now_ms, token: machine.describe(now_ms, token, ids)
    )
    budget = AnswerBudget()
    rows = [_row(one, found[one], budget) for one in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=rows)


def _row(transactional_id: str, found: TransactionState | ApiError | None, budget: AnswerBudget) -> _ROW:
    if isinstance(found, ApiError):
        return _ROW(transactional_id=transactional_id, error_code=found.code)
    if found is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return _ROW(transactional_id=transactional_id, error_code=code)
    size_bytes = _ROW_BYTES + sum(_TOPIC_BYTES + _PARTITION_BYTES * len(indexes) for _, indexes in found.partitions)
    if not budget.take(size_bytes):
        return _ROW(transactional_id=transactional_id, error_code=ErrorCode.MESSAGE_TOO_LARGE)
    return _ROW(
        transactional_id=transactional_id,
        error_code=ErrorCode.NONE,
        transaction_state=found.state.value,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_timestamp_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[_ROW.TopicData(topic=topic, partitions=list(indexes)) for topic, indexes in found.partitions],
    )
