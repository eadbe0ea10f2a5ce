"""ListTransactions v0-2 (KIP-664) of the shards owned here. v1 by duration (KIP-994). v2 by a pattern (KIP-1152).

The pattern is of RE2, as in Kafka: no pattern takes longer than its text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Final

from tailrace.coordination.transaction_records import STATES, TransactionState
from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.net.limits.answer_budget import fitting, text_bytes
from tailrace.wire.messages import ListTransactionsRequest, ListTransactionsResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.transactions.machine import ListTransactionsFilter

_ROW_BYTES: Final = 40  # of one transaction, with its state


async def handle(
    request: ListTransactionsRequest, context: Context, coordinator: Coordinator
) -> ListTransactionsResponse:
    """Answers all that are asked for; COORDINATOR_LOAD_IN_PROGRESS while some shards are not loaded.

    MESSAGE_TOO_LARGE where they are too many for one answer: filters make it smaller.
    """
    known = {status.value: status for status in STATES}
    wanted = ListTransactionsFilter(
        frozenset(known[name] for name in request.state_filters if name in known),
        frozenset(request.producer_id_filters),
        request.duration_filter if context.api_version >= 1 else -1,
        _matches(request.transactional_id_pattern if context.api_version >= 2 else None),
    )
    unknown = [name for name in request.state_filters if name not in known]
    if unknown and not wanted.states:
        return ListTransactionsResponse(error_code=0, unknown_state_filters=unknown, transaction_states=[])
    shards = await coordinator.transactions.ask_all(
        lambda machine, now_ms, token: machine.list_transactions(now_ms, token, wanted)
    )
    return await coordinator.large.over(sum(map(len, shards)), partial(_response, unknown, shards))


def _response(unknown: list[str], shards: Sequence[Sequence[TransactionState]]) -> ListTransactionsResponse:
    row = ListTransactionsResponse.TransactionState
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=unknown,
        transaction_states=[
            row(
                transactional_id=found.transactional_id,
                producer_id=found.producer_id,
                transaction_state=found.state.value,
            )
            for found in fitting(chain.from_iterable(shards), _size_bytes)
        ],
    )


def _size_bytes(found: TransactionState) -> int:
    return _ROW_BYTES + text_bytes(found.transactional_id)


def _matches(pattern: str | None) -> Callable[[str], bool]:
    if not pattern:
        return lambda _: True
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as wrong:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(wrong)) from None
    return lambda text: compiled.fullmatch(text) is not None
