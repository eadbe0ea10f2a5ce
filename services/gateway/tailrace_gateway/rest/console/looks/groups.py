"""Groups with their lag, and one group with its members and partitions."""

from __future__ import annotations

from typing import Final

from tailrace.clock import Clock
from tailrace.errors import ApiError
from tailrace.kafka.described_groups import DescribedGroup
from tailrace.kafka.lag import PartitionLag
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.console.hub import LookResult
from tailrace_gateway.rest.console.rows import Row
from tailrace_gateway.rest.errors import RestError
from tailrace_gateway.rest.groups import kafka as groups

GROUPS_MS: Final = 3_000
NAMED_MAX: Final = 6
LAGS_MAX: Final = 10  # of each look: all groups have their turn
_GROUP_MS: Final = 0.1  # waited for each listed group
_PARTITION_MS: Final = 2.0


class GroupsLook:
    """One row for each group. The lag of LAGS_MAX groups is asked for at each look, and the row says when it was."""

    def __init__(self, backend: AdminBackend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock
        self._lags: dict[str, Row] = {}  # the one that was asked for longest ago is first

    async def look(self) -> LookResult:
        listed = await groups.list_groups(self._backend)
        names = {group.group_id for group in listed}
        waiting = [name for name in names if name not in self._lags] + [name for name in self._lags if name in names]
        partitions = 0
        for name in sorted(waiting[:LAGS_MAX]) if len(waiting) <= LAGS_MAX else waiting[:LAGS_MAX]:
            self._lags.pop(name, None)
            self._lags[name], asked = await self._lag(name)
            partitions += asked
        self._lags = {name: row for name, row in self._lags.items() if name in names}
        rows = {group.group_id: {**_listed(group), **self._lags.get(group.group_id, {})} for group in listed}
        return LookResult(rows, max(GROUPS_MS, len(listed) * _GROUP_MS, partitions * _PARTITION_MS))

    async def _lag(self, name: str) -> tuple[Row, int]:
        try:
            rows = await groups.lags(self._backend, await groups.describe(self._backend, name))
        except (RestError, ApiError, OSError) as refused:
            why = "no answer" if isinstance(refused, TimeoutError) else str(refused)
            return {"lag": None, "lag_failure": why or type(refused).__name__}, 1
        if silent := [
            f"{row.topic}-{row.partition}" for row in rows if row.current_offset is not None and row.lag is None
        ]:
            more = f" and {len(silent) - NAMED_MAX} more" if len(silent) > NAMED_MAX else ""
            return {"lag": None, "lag_failure": f"no answer for {', '.join(silent[:NAMED_MAX])}{more}"}, len(rows)
        now_ms = self._clock.wall_ms()
        known = [row for row in rows if row.lag is not None]
        worst = max(known, key=lambda row: row.lag or 0, default=None)
        seconds = [row.seconds(now_ms) for row in known]
        found: Row = {
            "lag": sum(row.lag or 0 for row in known) if known else None,
            "lag_seconds": _longest(seconds),
            "worst": None if worst is None else [worst.topic, worst.partition],
            "uncommitted": sum(row.current_offset is None for row in rows),
        }
        return found, len(rows)


def _longest(seconds: list[float | None]) -> int | None:
    """None where one of them is unknown: it may be the longest."""
    known = [one for one in seconds if one is not None]
    return round(max(known)) if known and len(known) == len(seconds) else None


def _listed(group: DescribedGroup) -> Row:
    return {"state": group.state, "type": group.type}


async def group(backend: AdminBackend, clock: Clock, name: str) -> LookResult:
    """The group, its members and the partitions that it reads or has read."""
    described = await groups.describe(backend, name)
    lags = await groups.lags(backend, described)
    now_ms = clock.wall_ms()
    rows: dict[str, Row] = {"group": {**_listed(described), "assignor": described.assignor}}
    for member in described.members:
        rows[f"member:{member.member_id}"] = {
            "member_id": member.member_id,
            "client_id": member.client_id,
            "host": member.client_host,
            "instance_id": member.instance_id,
        }
    for row in lags:
        rows[f"partition:{row.topic}:{row.partition}"] = _partition(row, now_ms)
    return LookResult(rows, max(GROUPS_MS, len(lags) * _PARTITION_MS))


def _partition(row: PartitionLag, now_ms: int) -> Row:
    seconds = row.seconds(now_ms)
    return {
        "topic": row.topic,
        "partition": row.partition,
        "member_id": row.member.member_id if row.member else None,
        "committed": row.current_offset,
        "end": row.log_end_offset,
        "lag": row.lag,
        "seconds": None if seconds is None else round(seconds),
    }
