"""Compaction as a resource."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from tailrace_gateway.rest.models import Metadata


class Compaction(BaseModel):
    """One replica of a compacted topic; dirty_ratio is the share that the next pass would clean.

    last_cleaned_ms is null if this life of the broker has not cleaned it; uncleanable says why it is set aside.
    """

    kind: Literal["TailraceCompaction"] = "TailraceCompaction"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    broker_id: int
    dirty_ratio: float
    cleaned_offset: int
    last_cleaned_ms: int | None
    uncleanable: str | None
