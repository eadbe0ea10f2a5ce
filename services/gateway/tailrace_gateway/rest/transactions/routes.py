"""Transactional ids: their producers, and how far their transactions are."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import Field

from tailrace.kafka.described_groups import constant_case
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.models import Int64, Listing, Wanted
from tailrace_gateway.rest.scope import InCluster
from tailrace_gateway.rest.topics.routes import partition_or_404
from tailrace_gateway.rest.transactions import kafka as transactions
from tailrace_gateway.rest.transactions.models import (
    OpenTransaction,
    OpenTransactionList,
    Transaction,
    TransactionSummary,
)

router = APIRouter(route_class=LimitedRoute, prefix="/v3/clusters/{cluster_id}", tags=["Transaction"])


@router.get("/transactions", response_model=Listing[TransactionSummary])
async def list_transactions(scope: InCluster) -> Response:
    """Lists transactional ids in the order of their names, 1,000 at most."""
    rows = (
        TransactionSummary(
            metadata=scope.metadata("transactions", row.transactional_id),
            cluster_id=scope.cluster_id,
            transactional_id=row.transactional_id,
            producer_id=row.producer_id,
            state=constant_case(row.transaction_state),
        )
        for row in await transactions.listed(scope.backend)
    )
    return await scope.listed("TailraceTransactionList", ("transactions",), rows)


@router.get("/transactions/{transactional_id}")
async def get_transaction(scope: InCluster, transactional_id: str) -> Transaction:
    """One transactional id with the partitions of its transaction."""
    row = await transactions.described(scope.backend, transactional_id)
    start_ms = row.transaction_start_time_ms
    return Transaction(
        metadata=scope.metadata("transactions", transactional_id),
        cluster_id=scope.cluster_id,
        transactional_id=transactional_id,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        state=constant_case(row.transaction_state),
        timeout_ms=row.transaction_timeout_ms,
        start_ms=None if start_ms < 0 else start_ms,
        partitions=[
            scope.link("topics", topic.topic, "partitions", index) for topic in row.topics for index in topic.partitions
        ],
    )


@router.get("/topics/-/partitions/-/transactions")
async def list_open_transactions(scope: InCluster) -> OpenTransactionList:
    """Lists what is open in partitions, 1,000 at most: what hangs, then late ones, then those silent for longest.

    Of the partitions that a silent broker leads nothing is known.
    """
    found = await transactions.opened(scope.backend)
    data = [
        OpenTransaction(
            metadata=scope.metadata(
                "topics", row.topic_name, "partitions", row.partition_index, "producers", row.producer_id
            ),
            cluster_id=scope.cluster_id,
            topic_name=row.topic_name,
            partition_id=row.partition_index,
            state=_state(row),
            transactional_id=name,
            producer_id=row.producer_id,
            producer_epoch=row.producer_epoch,
            start_offset=row.start_offset,
            last_timestamp_ms=row.last_timestamp,
        )
        for row, name in found.rows
    ]
    here = scope.listing("topics", "-", "partitions", "-", "transactions")
    return OpenTransactionList(
        kind="TailraceOpenTransactionList", metadata=here, data=data, silent_brokers=found.silent
    )


class HangingTransaction(Wanted):
    """A transaction of one producer in one partition, by its first offset there."""

    producer_id: Int64
    start_offset: Annotated[Int64, Field(ge=0)]


@router.post("/topics/{topic_name}/partitions/{partition_id}/transactions:abort", status_code=HTTPStatus.NO_CONTENT)
async def abort_transaction(scope: InCluster, topic_name: str, partition_id: int, which: HangingTransaction) -> None:
    """Aborts a transaction that hangs, in this partition alone; 409 for one that does not hang."""
    partition_or_404(scope, topic_name, partition_id)
    key = (topic_name, partition_id)
    await transactions.abort(scope.backend, key, which.producer_id, which.start_offset)


def _state(row: Any) -> Literal["OPEN", "LATE", "HANGING"]:
    if row.is_hanging:
        return "HANGING"
    return "LATE" if row.is_late else "OPEN"
