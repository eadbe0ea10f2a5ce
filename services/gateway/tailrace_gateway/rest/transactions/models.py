"""Transactions as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from tailrace_gateway.rest.models import Link, Listing, Metadata


class OpenTransaction(BaseModel):
    """A transaction that is open in a partition, as its leader knows it; readers at read_committed stop at its start.

    OPEN; LATE: its producer is silent for longer than any transaction may take; HANGING: late, and no coordinator has
    it open, so nothing ends it. last_timestamp_ms is its last record's own. transactional_id is null if no coordinator
    knows the producer, or if one did not answer.
    """

    kind: Literal["TailraceOpenTransaction"] = "TailraceOpenTransaction"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    state: Literal["OPEN", "LATE", "HANGING"]
    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_timestamp_ms: int


class OpenTransactionList(Listing[OpenTransaction]):
    """silent_brokers are live, and did not tell within three seconds what is open in the partitions that they lead."""

    silent_brokers: list[int]


class TransactionSummary(BaseModel):
    """A transactional id, its producer and the state of its last transaction."""

    kind: Literal["TailraceTransactionSummary"] = "TailraceTransactionSummary"
    metadata: Metadata
    cluster_id: str
    transactional_id: str
    producer_id: int
    state: str


class Transaction(BaseModel):
    """The same in full; start_ms is null while the state is EMPTY, and only an open one has partitions."""

    kind: Literal["TailraceTransaction"] = "TailraceTransaction"
    metadata: Metadata
    cluster_id: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: list[Link]
