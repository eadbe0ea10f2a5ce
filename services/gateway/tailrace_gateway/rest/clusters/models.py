"""The cluster as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from tailrace_gateway.rest.models import Link, Metadata


class Cluster(BaseModel):
    kind: Literal["KafkaCluster"] = "KafkaCluster"
    metadata: Metadata
    cluster_id: str
    controller: Link | None
    acls: Link | None  # null where no authorizer is set
    brokers: Link
    broker_configs: Link
    consumer_groups: Link
    topics: Link
    partition_reassignments: Link
