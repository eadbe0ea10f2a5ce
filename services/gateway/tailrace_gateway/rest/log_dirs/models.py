"""Log directories and moves between them, as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from tailrace_gateway.rest.models import Link, Metadata, Text, Wanted


class LogDir(BaseModel):
    """Sizes and producers are null while it is offline; a full disk's producers are slowed, then refused.

    moving_here_count counts replicas that AlterReplicaLogDirs brings here.
    """

    kind: Literal["TailraceLogDir"] = "TailraceLogDir"
    metadata: Metadata
    cluster_id: str
    broker_id: int
    log_dir: str
    state: Literal["online", "offline"]
    producers: Literal["accepted", "slowed", "refused"] | None
    total_bytes: int | None
    usable_bytes: int | None
    size_bytes: int | None
    partitions_count: int
    moving_here_count: int


class LogDirMove(BaseModel):
    """A replica on its way to another log directory of its broker; offset_lag counts the records its copy lacks."""

    kind: Literal["TailraceLogDirMove"] = "TailraceLogDirMove"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    broker_id: int
    source_log_dir: str
    target_log_dir: str
    copied_bytes: int
    total_bytes: int
    offset_lag: int
    replica: Link


class NewLogDirMove(Wanted):
    """Where the replica shall lie: one of its broker's log.dirs."""

    log_dir: Text
