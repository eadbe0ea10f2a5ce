"""Brokers as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from tailrace_gateway.rest.models import Link, Metadata


class Broker(BaseModel):
    kind: Literal["KafkaBroker"] = "KafkaBroker"
    metadata: Metadata
    cluster_id: str
    broker_id: int
    host: str
    port: int
    rack: str | None
    state: str
    broker_epoch: int
    configs: Link
    partition_replicas: Link
    log_dirs: Link
