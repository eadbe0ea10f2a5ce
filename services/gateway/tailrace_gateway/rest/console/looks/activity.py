"""Open transactions, quotas, and limited clients with what they use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tailrace.quota.entity import QuotaEntity
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.console.hub import LookResult
from tailrace_gateway.rest.console.rows import Row
from tailrace_gateway.rest.quotas import kafka as usage
from tailrace_gateway.rest.transactions import kafka as opened

LOOK_MS: Final = 3_000
_IMAGE_MS: Final = 500  # an image that is the same costs nothing
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


class QuotaLimitsLook:
    """One row for each quota that is set, of the image; without the right to see them it raises, as Kafka refuses."""

    def __init__(self, backend: AdminBackend) -> None:
        self._backend = backend
        self._quotas: object = None
        self._rows: dict[str, Row] = {}

    async def look(self) -> LookResult:
        quotas = usage.all_of(self._backend)
        if quotas is not self._quotas:
            self._rows = await self._backend.run(lambda: dict(_limits(quotas)))
            self._quotas = quotas
        return LookResult(self._rows, max(_IMAGE_MS, len(self._rows)))


def _limits(quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> Iterator[tuple[str, Row]]:
    for entity, values in quotas.items():
        for name, value in values.items():
            key = f"{usage.id_of(entity)}:{name}"
            yield key, {"entity": [list(part) for part in entity], "name": name, "value": value}
