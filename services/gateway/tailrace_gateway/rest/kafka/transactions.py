"""Transactions of all coordinators, or of one id: ListTransactions v1 and DescribeTransactions v0 (KIP-664)."""

from __future__ import annotations

from heapq import nsmallest
from operator import attrgetter
from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import TRANSACTION_STATE_TOPIC
from tailrace.wire.messages import DescribeTransactionsRequest, ListTransactionsRequest
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.errors import check, not_found

# The gateway's event loop also relays data: of very many ids `tailrace transaction list` shows all.
TRANSACTIONS_MAX = 1_000


async def listed(backend: AdminBackend) -> list[Any]:
    """The rows of ListTransactions by id, not more than the first TRANSACTIONS_MAX."""
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    found = []
    for answer in await backend.ask_coordinators(request, 1, topic=TRANSACTION_STATE_TOPIC):
        check(answer.error_code)
        found += answer.transaction_states
    return nsmallest(TRANSACTIONS_MAX, found, key=attrgetter("transactional_id"))


async def described(backend: AdminBackend, transactional_id: str) -> Any:
    """The row of DescribeTransactions; 404 for an id that nobody knows."""
    unknown = not_found(f"Transactional id {transactional_id} cannot be found.")
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    try:
        answer = await backend.ask_owner(TRANSACTION_STATE_TOPIC, transactional_id, request)
    except ApiError as refused:
        # The topic is made with the first of them; before that nobody coordinates and there is none.
        if (
            backend.image().topic(TRANSACTION_STATE_TOPIC) is None
            and refused.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        ):
            raise unknown from None
        raise
    (row,) = answer.transaction_states
    if row.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise unknown
    check(row.error_code)
    return row
