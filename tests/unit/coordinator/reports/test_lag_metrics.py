"""The lag of groups by topic as metrics."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tailrace.coordination.group_records import OffsetCommitted
from tailrace_coordinator.reports import lag_metrics
from tailrace_coordinator.reports.committed_offsets import GroupOffset
from tailrace_coordinator.reports.lag_metrics import LagMetrics

NOW_MS = 10_000


def row(group: str, topic: str, partition: int, end: int | None, timestamp_ms: int | None = None) -> GroupOffset:
    return GroupOffset(OffsetCommitted(group, topic, partition, 3), end, timestamp_ms, None, 0.0, 0.0)


def samples(rows: list[GroupOffset]) -> list[str]:
    registry = CollectorRegistry()
    LagMetrics(registry, lambda: rows, lambda: NOW_MS)
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_partitions_add_up_and_the_oldest_record_counts() -> None:
    rows = [row("g", "t", 0, 5, 9_000), row("g", "t", 1, 4, 7_500), row("g", "u", 0, None), row("h", "t", 0, 9)]
    assert samples(rows) == [
        'tailrace_group_lag{group="g",topic="t"} 3.0',
        'tailrace_group_lag{group="h",topic="t"} 6.0',
        'tailrace_group_lag_seconds{group="g",topic="t"} 2.5',
        "tailrace_group_lag_omitted_series 0.0",
    ]


def test_series_are_bounded_and_what_is_left_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_metrics, "SERIES_MAX", 2)
    found = samples([row(f"g{number}", "t", 0, 3) for number in range(5)])
    assert [line.split("{")[0] for line in found[:4]] == ["tailrace_group_lag"] * 2 + ["tailrace_group_lag_seconds"] * 2
    assert found[4] == "tailrace_group_lag_omitted_series 3.0"
