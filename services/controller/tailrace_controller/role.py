"""What the controller's handlers work with."""

import asyncio
from dataclasses import dataclass, field

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace_controller.controller import LOAD_WAIT_MS, Controller
from tailrace_controller.decide.placement import usable_brokers
from tailrace_controller.election.quorum import Quorum
from tailrace_controller.mutations import ClientMutations
from tailrace_controller.periodic import PeriodicTasks
from tailrace_controller.sessions.watch import SessionWatch


class CommittedImage:
    """The image without what is decided and not written yet."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    @property
    def image(self) -> MetadataImage:
        return self._controller.committed


@dataclass
class ControllerRole:
    """The controller with its watch over sessions, its periodic tasks, the quorum, the mutations of clients, and when
    coordinators reported. authorizes: whether it has an authorizer.
    """

    controller: Controller
    watch: SessionWatch
    periodic: PeriodicTasks
    quorum: Quorum
    mutations: ClientMutations
    authorizes: bool = False
    addresses: dict[str, str] = field(default_factory=dict)
    _reports: dict[tuple[int, str], int] = field(default_factory=dict)  # when the last of each coordinator began

    @property
    def ready(self) -> asyncio.Event:
        """Set once the log is replayed."""
        return self.controller.ready

    def health(self) -> dict[str, bool]:
        """Says whether decisions can be taken, here or at the controller that this one follows."""
        return {"active": self.controller.leader[0] >= 0 and not self.controller.refusal}

    def check_authorizer(self, why: str) -> None:
        """Raises SECURITY_DISABLED where there is no authorizer."""
        if not self.authorizes:
            raise ApiError(ErrorCode.SECURITY_DISABLED, why)

    async def until_placeable(self) -> None:
        """Waits a moment for a broker that can take replicas: a cluster that comes back has one soon.

        In Apache Kafka nobody asks meanwhile, since only unfenced brokers take requests.
        """
        controller = self.controller
        await controller.until_active()
        until_ms = controller.clock.monotonic_ms() + LOAD_WAIT_MS
        while not usable_brokers(controller.image):
            left_ms = until_ms - controller.clock.monotonic_ms()
            if left_ms <= 0:
                return
            await controller.wait_for(controller.followed.end_offset, left_ms)

    def on_activated(self) -> None:
        """Begins what the active controller does by itself."""
        self.quorum.begin()
        self.watch.on_activated()
        self.periodic.on_activated()

    def reported_ms(self, coordinator_id: int, kind: str, *, first: bool) -> int | None:
        """When the report began that this is a part of; None for a part whose first one went to another controller."""
        if first:
            self._reports[coordinator_id, kind] = self.controller.clock.wall_ms()
        return self._reports.get((coordinator_id, kind))

    def close(self) -> None:
        """Stops what runs in the background."""
        self.quorum.close()
        self.watch.close()
        self.periodic.close()
