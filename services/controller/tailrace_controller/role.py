"""What the controller's handlers work with."""

import asyncio
from dataclasses import dataclass, field

from tailrace_controller.controller import Controller
from tailrace_controller.decide.reports import Report
from tailrace_controller.quorum import Quorum
from tailrace_controller.upkeep import Upkeep
from tailrace_controller.watch import Watch


@dataclass
class ControllerRole:
    """The controller, who watches its sessions, its upkeep, who else has its log, and reports for the SQL views."""

    controller: Controller
    watch: Watch
    upkeep: Upkeep
    quorum: Quorum
    addresses: dict[str, str] = field(default_factory=dict)
    _reporting: dict[int, asyncio.Task[None]] = field(default_factory=dict)

    @property
    def ready(self) -> asyncio.Event:
        """Set once the log is replayed."""
        return self.controller.ready

    def health(self) -> dict[str, bool]:
        """Says whether decisions can be taken, here or at the controller that this one follows."""
        return {"active": self.controller.leader[0] >= 0 and not self.controller.refusal}

    def on_activated(self) -> None:
        """Begins what the active controller does by itself."""
        self.quorum.begin()
        self.watch.on_activated()
        self.upkeep.on_activated()

    def report(self, coordinator_id: int, report: Report) -> None:
        """Stores a report unless the last one of this coordinator is still on its way; the next one will do as well."""
        running = self._reporting.get(coordinator_id)
        if running is None or running.done():
            work = self.controller.report(coordinator_id, report.groups, report.offsets)
            self._reporting[coordinator_id] = asyncio.get_running_loop().create_task(work)

    def close(self) -> None:
        """Stops what runs in the background."""
        self.quorum.close()
        self.watch.close()
        self.upkeep.close()
        for task in self._reporting.values():
            task.cancel()
