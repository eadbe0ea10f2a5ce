"""DescribeOpenTransactions v0 (private): the transactions that are open in partitions led here, the worst first.

For the gateway's REST API: Kafka's DescribeProducers would have to ask every partition for all of its producers.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import Final

from tailrace.net.context import Context
from tailrace.wire.messages import DescribeOpenTransactionsRequest, DescribeOpenTransactionsResponse
from tailrace_broker.transactions.hanging import HangingTransactions
from tailrace_broker.transactions.open_transactions import LedTransactions, OpenTransaction

_MOST_TOLD: Final = 1_000
_Row = DescribeOpenTransactionsResponse.OpenTransaction


async def handle(
    request: DescribeOpenTransactionsRequest,
    context: Context,
    open_transactions: LedTransactions,
    hanging: HangingTransactions,
) -> DescribeOpenTransactionsResponse:
    """Late ones before others, then the one whose producer is silent for longest; 1,000 at most."""
    found: list[OpenTransaction] = []
    most = max(0, min(request.transactions_max, _MOST_TOLD))
    async for rows in open_transactions.by_partition():
        found += rows
        if len(found) > 2 * _MOST_TOLD:
            found = nsmallest(_MOST_TOLD, found, key=_urgency)
    return DescribeOpenTransactionsResponse(
        error_code=0,
        transactions=[
            _Row(
                topic_name=one.place.topic,
                partition_index=one.place.partition,
                producer_id=one.place.producer_id,
                producer_epoch=one.producer_epoch,
                start_offset=one.start_offset,
                last_timestamp=one.last_timestamp_ms,
                is_late=one.is_late,
                is_hanging=one.is_late and one.place in hanging.found,
            )
            for one in nsmallest(most, found, key=_urgency)
        ],
    )


def _urgency(one: OpenTransaction) -> tuple[bool, int]:
    return (not one.is_late, one.last_timestamp_ms)
