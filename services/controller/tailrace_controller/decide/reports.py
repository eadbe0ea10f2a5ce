"""Reports of coordinators (groups, transactions) and quota services (the use of quotas), as rows for the SQL views.

What does not look right is left out, not refused.
"""

import json
from typing import Any

GROUPS, GROUP_OFFSETS, TRANSACTIONS, QUOTA_USAGE = "groups", "group_offsets", "transactions", "quota_usage"


def parse(kind: str, payload: bytes, now_ms: int) -> list[dict[str, Any]]:
    """Returns the rows of a JSON list.

    A group is {group_id, state, type, members}; an offset {group_id, topic, partition, committed_offset, metadata,
    log_end_offset}; a transaction {transactional_id, state, producer_id, producer_epoch, timeout_ms, start_ms,
    partitions}, start_ms -1 where none was begun; use of a quota {entity, name, value, usage, throttle_time_ms,
    throttled}.
    """
    rows = []
    try:
        for row in json.loads(payload):
            rows.append(_RENDER[kind](row, now_ms))
    except (ValueError, KeyError, TypeError):
        pass  # what came before it is good
    return rows


def _group(row: dict[str, Any], now_ms: int) -> dict[str, Any]:
    return {
        "group_id": str(row["group_id"]),
        "state": str(row["state"]),
        "type": str(row.get("type", "classic")),
        "members": int(row.get("members", 0)),
        "reported_ms": now_ms,
    }


def _offset(row: dict[str, Any], now_ms: int) -> dict[str, Any]:
    end = row.get("log_end_offset")
    return {
        "group_id": str(row["group_id"]),
        "topic": str(row["topic"]),
        "partition_id": int(row["partition"]),
        "committed_offset": int(row["committed_offset"]),
        "log_end_offset": None if end is None else int(end),
        "metadata": str(row.get("metadata") or ""),
        "reported_ms": now_ms,
    }


def _transaction(row: dict[str, Any], now_ms: int) -> dict[str, Any]:
    start_ms = int(row["start_ms"])
    return {
        "transactional_id": str(row["transactional_id"]),
        "state": str(row["state"]),
        "producer_id": int(row["producer_id"]),
        "producer_epoch": int(row["producer_epoch"]),
        "timeout_ms": int(row["timeout_ms"]),
        "start_ms": None if start_ms < 0 else start_ms,
        "partitions": int(row["partitions"]),
        "reported_ms": now_ms,
    }


def _quota_usage(row: dict[str, Any], now_ms: int) -> dict[str, Any]:
    return {
        "entity": str(row["entity"]),
        "name": str(row["name"]),
        "value": float(row["value"]),
        "usage": float(row["usage"]),
        "throttle_time_ms": int(row["throttle_time_ms"]),
        "throttled": bool(row["throttled"]),
        "reported_ms": now_ms,
    }


_RENDER = {GROUPS: _group, GROUP_OFFSETS: _offset, TRANSACTIONS: _transaction, QUOTA_USAGE: _quota_usage}
KINDS = frozenset(_RENDER)
BY_QUOTA_SERVICES = frozenset({QUOTA_USAGE})
