"""What of a coordinator's shards the controller shows in its SQL views (tailrace.net.members.reports)."""

from __future__ import annotations

from functools import partial

from tailrace.net.members.reports import Source
from tailrace_coordinator.shards.kind import Report
from tailrace_coordinator.shards.runtime import CoordinatorRuntime


def sources_of(runtime: CoordinatorRuntime) -> list[Source]:
    """What the shards of a kind have to show."""
    return [
        Source(kind, partial(_things, runtime, report), report.row, report.key)
        for kind, report in runtime.kind.reports.items()
    ]


def _things(runtime: CoordinatorRuntime, report: Report) -> list[object]:
    return [thing for machine in runtime.loaded_machines() for thing in report.things(machine)]
