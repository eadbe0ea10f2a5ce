"""What the controller shows of groups in its SQL views: JSON rows with the heartbeat, about once a minute.

Bounded, because the views are for people: of more groups or offsets than MAX_ROWS the first are reported. The offsets
and the ends of their logs are gathered beside it (committed_offsets.py).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tailrace.clock import Clock
from tailrace_coordinator.committed_offsets import MAX_ROWS
from tailrace_coordinator.groups.describe import group_type
from tailrace_coordinator.groups.machine import GroupMachine

FEW_ROWS = 1_000
INTERVAL_MS = 60_000
SOON_MS = 5_000  # while there is little to say it is said sooner


class Reports:
    """Called at every heartbeat; has something to say when enough time has passed."""

    def __init__(
        self,
        clock: Clock,
        machines: Callable[[], Iterable[GroupMachine | None]],
        offsets: Callable[[], Sequence[dict[str, Any]]],
    ) -> None:
        self._clock = clock
        self._machines = machines
        self._offsets = offsets
        self._next_ms = self._again_ms = 0.0
        self._last: list[tuple[str, bytes]] = []

    def __call__(self) -> list[tuple[str, bytes]]:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms:
            return []
        machines = [machine for machine in self._machines() if machine is not None]
        groups = list(itertools.islice(_groups(machines), MAX_ROWS))
        offsets = self._offsets()
        self._next_ms = now_ms + (SOON_MS if len(groups) + len(offsets) < FEW_ROWS else INTERVAL_MS)
        reports = [("groups", json.dumps(groups).encode()), ("group_offsets", json.dumps(offsets).encode())]
        if reports == self._last and now_ms < self._again_ms:
            return []
        self._last = reports
        self._again_ms = now_ms + INTERVAL_MS  # the same once more: the controller may be another one by then
        return reports


def _groups(machines: Iterable[GroupMachine]) -> Iterator[dict[str, Any]]:
    for machine in machines:
        for group in machine.groups.values():
            yield {
                "group_id": group.group_id,
                "state": group.state.value,
                "type": group_type(group),
                "members": len(group.members),
            }
