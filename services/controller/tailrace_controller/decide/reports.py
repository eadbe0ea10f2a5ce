"""Coordinators' reports on groups, as rows for the SQL views. What does not look right is left out, not refused."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

GROUPS, GROUP_OFFSETS = "groups", "group_offsets"


class Report(NamedTuple):
    """Rows of one coordinator; None where it did not report that kind."""

    groups: list[dict[str, Any]] | None
    offsets: list[dict[str, Any]] | None


def parse(reports: Iterable[Any], now_ms: int) -> Report:
    """Returns the rows of the kinds `groups` and `group_offsets`: JSON lists that replace the coordinator's last ones.

    A group is {group_id, state, type, members}; an offset {group_id, topic, partition, committed_offset, metadata,
    log_end_offset}.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for report in reports:
        try:
            rows = json.loads(bytes(report.payload))
            render = _RENDER.get(report.kind)
            if render is not None:
                found.setdefault(report.kind, []).extend(render(row, now_ms) for row in rows)
        except (ValueError, KeyError, TypeError):
            continue
    return Report(found.get(GROUPS), found.get(GROUP_OFFSETS))


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


_RENDER = {GROUPS: _group, GROUP_OFFSETS: _offset}
