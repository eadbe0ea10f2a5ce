"""Reports of coordinators (groups, transactions) and quota services (the use of quotas), as rows for the SQL views.

What does not look right is left out, not refused. Text that PostgreSQL cannot hold is replaced.
"""

import json
from typing import Any

from tailrace.quota.entity import short_name

MAX_KEY_BYTES = 2_200  # with a topic beside it; an index of PostgreSQL holds 2,704
GROUPS, GROUP_OFFSETS, TRANSACTIONS, QUOTA_USAGE = "groups", "group_offsets", "transactions", "quota_usage"


def parse(kind: str, payload: bytes, now_ms: int) -> list[dict[str, object]]:
    """Returns the rows of a JSON list.

    A group is {group_id, state, type, members}; an offset {group_id, topic, partition, committed_offset, metadata,
    log_end_offset, next_timestamp_ms, lag_trend}; a transaction {transactional_id, state, producer_id, producer_epoch,
    timeout_ms, start_ms, partitions}, start_ms -1 where none was begun; use of a quota {entity, name, value, usage,
    throttle_time_ms, throttled}.
    """
    rows = []
    try:
        for row in json.loads(payload):
            rows.append(_RENDER[kind](row, now_ms))
    except (ValueError, KeyError, TypeError):
        pass  # what came before it is good
    return rows


def _group(row: dict[str, Any], now_ms: int) -> dict[str, object]:
    return {
        "group_id": _key(row["group_id"]),
        "state": _text(row["state"]),
        "type": _text(row.get("type", "classic")),
        "members": int(row.get("members", 0)),
        "reported_ms": now_ms,
    }


def _offset(row: dict[str, Any], now_ms: int) -> dict[str, object]:
    end = row.get("log_end_offset")
    return {
        "group_id": _key(row["group_id"]),
        "topic": _text(row["topic"]),
        "partition_id": int(row["partition"]),
        "committed_offset": int(row["committed_offset"]),
        "log_end_offset": None if end is None else int(end),
        "metadata": _text(row.get("metadata") or ""),
        "reported_ms": now_ms,
        "next_timestamp_ms": None if (timestamp_ms := row.get("next_timestamp_ms")) is None else int(timestamp_ms),
        "lag_trend": None if (trend := row.get("lag_trend")) is None else float(trend),
    }


def _transaction(row: dict[str, Any], now_ms: int) -> dict[str, object]:
    start_ms = int(row["start_ms"])
    return {
        "transactional_id": _key(row["transactional_id"]),
        "state": _text(row["state"]),
        "producer_id": int(row["producer_id"]),
        "producer_epoch": int(row["producer_epoch"]),
        "timeout_ms": int(row["timeout_ms"]),
        "start_ms": None if start_ms < 0 else start_ms,
        "partitions": int(row["partitions"]),
        "reported_ms": now_ms,
    }


def _quota_usage(row: dict[str, Any], now_ms: int) -> dict[str, object]:
    return {
        "entity": _key(row["entity"]),
        "name": _text(row["name"]),
        "value": float(row["value"]),
        "usage": float(row["usage"]),
        "throttle_time_ms": int(row["throttle_time_ms"]),
        "throttled": bool(row["throttled"]),
        "reported_ms": now_ms,
    }


def _text(text: object) -> str:
    """Without NUL, which PostgreSQL does not take, and without surrogates, which are no UTF-8."""
    return str(text).replace("\0", "\\0").encode(errors="backslashreplace").decode()


def _key(text: object) -> str:
    """A name that may be one of two in the key of a row: a long one is its beginning and a hash."""
    whole = _text(text)
    return whole if len(whole.encode()) <= MAX_KEY_BYTES else short_name(whole)


_RENDER = {GROUPS: _group, GROUP_OFFSETS: _offset, TRANSACTIONS: _transaction, QUOTA_USAGE: _quota_usage}
KINDS = frozenset(_RENDER)
BY_QUOTA_SERVICES = frozenset({QUOTA_USAGE})
