"""Open transactions, and limited clients with what they use."""

from __future__ import annotations

from typing import Final

from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.console.hub import LookResult
from tailrace_gateway.rest.console.rows import Row
from tailrace_gateway.rest.kafka import quotas as usage
from tailrace_gateway.rest.kafka import transactions as opened

LOOK_MS: Final = 3_000
_ROW_MS: Final = 3.0


async def transactions(backend: AdminBackend) -> LookResult:
    """One row for each open transaction in a partition, the one that hangs first."""
    found = await opened.opened(backend)
    rows: dict[str, Row] = {}
    for row, name in found.rows:
        rows[f"{row.topic_name}:{row.partition_index}:{row.producer_id}"] = {
            "topic": row.topic_name,
            "partition": row.partition_index,
            "state": "HANGING" if row.is_hanging else "LATE" if row.is_late else "OPEN",
            "transactional_id": name,
            "producer_id": row.producer_id,
            "start_offset": row.start_offset,
            "last_timestamp_ms": row.last_timestamp,
        }
    silent = ", ".join(map(str, found.silent[:6]))
    note = f"Not known of the partitions of broker {silent}: no answer." if silent else ""
    return LookResult(rows, max(LOOK_MS, len(rows) * _ROW_MS), note)


async def quotas(backend: AdminBackend) -> LookResult:
    """One row for each limit of each client that was active in the last minute."""
    rows: dict[str, Row] = {}
    for number, row in enumerate(await usage.usage(backend)):
        rows[str(number)] = {
            "user": row.user,
            "client_id": row.client_id,
            "ip": row.ip,
            "broker_id": row.broker,
            "name": row.key,
            "limit": row.limit,
            "usage": round(row.rate, 2),
            "throttled": row.throttled,
            "throttle_time_ms": round(row.throttle_time_ms),
        }
    return LookResult(rows, max(LOOK_MS, len(rows) * _ROW_MS))
