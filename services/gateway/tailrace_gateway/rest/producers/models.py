"""A partition's producer and a transaction as resources."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from tailrace_gateway.rest.models import Metadata


class ActiveProducer(BaseModel):
    """What the leader remembers of an idempotent or transactional producer (KIP-664).

    null: no sequence known, no transaction of its has ended here, none is open. last_timestamp_ms is its records' own.
    """

    kind: Literal["TailraceProducer"] = "TailraceProducer"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int
    coordinator_epoch: int | None
    current_txn_start_offset: int | None
