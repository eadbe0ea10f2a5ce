"""What the active controller does by itself, from time to time: preferred leaders, internal topics, unclean elections.

It looks once a second; a look at an image that did not change costs nothing. The decisions are in decide/.
"""

import asyncio
from collections.abc import Callable, Iterable

from tailrace.clock import Cancellable
from tailrace.errors import ApiError
from tailrace.kafka.features import ELIGIBLE_LEADER_REPLICAS_VERSION, INITIAL
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import FeatureLevelRecord, MetadataRecord
from tailrace_controller.controller import Controller
from tailrace_controller.decide import elections, internal_topics, preferred_leaders
from tailrace_controller.decide.controller_result import ControllerResult

LOOK_EVERY_MS = 1000


class PeriodicTasks:
    """One timer while the controller is active; at most one round of decisions at a time."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._timer: Cancellable | None = None
        self._round: asyncio.Task[None] | None = None
        self._seen: MetadataImage | None = None
        self._live: frozenset[int] = frozenset()
        self._growing = False
        self._balance_at_ms = 0.0
        self._unclean_at_ms = 0.0
        self.preferred_elections = 0

    def on_activated(self) -> None:
        """Begins to look; the first balance is a whole interval away, so that a starting cluster settles first."""
        now_ms, config = self._controller.clock.monotonic_ms(), self._controller.config
        self._seen = None
        self._live = frozenset()
        self._balance_at_ms = now_ms + config.leader_imbalance_check_interval_seconds * 1000
        self._unclean_at_ms = now_ms + config.unclean_leader_election_interval_ms
        self._plan()

    def close(self) -> None:
        """Stops looking."""
        if self._timer is not None:
            self._timer.cancel()
        if self._round is not None:
            self._round.cancel()

    def _plan(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._controller.clock.call_later(LOOK_EVERY_MS, self._look)

    def _look(self) -> None:
        if self._controller.active and (self._round is None or self._round.done()):
            self._round = asyncio.get_running_loop().create_task(self._decide())
        self._plan()

    async def _decide(self) -> None:
        now_ms, config = self._controller.clock.monotonic_ms(), self._controller.config
        try:
            if self._changed():
                await self._record(_missing_feature)
                await self._maybe_grow()
            if now_ms >= self._unclean_at_ms:
                self._unclean_at_ms = now_ms + config.unclean_leader_election_interval_ms
                await self._controller.run_in_thread(self._elect_uncleanly, behind=False)
            if config.auto_leader_rebalance_enable and now_ms >= self._balance_at_ms:
                more = await self._controller.run_in_thread(self._restore)
                if not more:
                    self._balance_at_ms = now_ms + config.leader_imbalance_check_interval_seconds * 1000
        except ApiError:  # not active any more, or the database is slow: the next look finds what is left to do
            self._seen = None

    def _changed(self) -> bool:
        """Says whether brokers or topics are others than at the last look that was completed."""
        seen, image = self._seen, self._controller.image
        self._seen = image
        return seen is None or seen.brokers is not image.brokers or seen.topics is not image.topics

    async def _maybe_grow(self) -> None:
        """Internal topics grow when brokers join; otherwise a broker that is being emptied would be filled again."""
        live = elections.Elections(self._controller.image, self._controller.config).may_lead
        joined, self._live = live - self._live, live
        self._growing = self._growing or bool(joined)
        if self._growing:
            await self._controller.run(self._grow, behind=False)

    def _grow(self, image: MetadataImage) -> ControllerResult[None]:
        records = tuple(internal_topics.grow(image, self._controller.config))
        self._growing = bool(records) or internal_topics.are_moving(image)
        return ControllerResult(None, records)

    def _elect_uncleanly(self, image: MetadataImage) -> ControllerResult[None]:
        return ControllerResult(None, tuple(elections.unclean(image, self._controller.config)))

    def _restore(self, image: MetadataImage) -> ControllerResult[bool]:
        effects = preferred_leaders.restore(image, self._controller.config)
        self.preferred_elections += len(effects.records)
        return effects

    async def _record(self, decide: Callable[[MetadataImage], Iterable[MetadataRecord]]) -> None:
        await self._controller.run(lambda image: ControllerResult(None, tuple(decide(image))), behind=False)


def _missing_feature(image: MetadataImage) -> Iterable[MetadataRecord]:
    """A log that began before replication has none."""
    level = INITIAL[ELIGIBLE_LEADER_REPLICAS_VERSION]
    if image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION) != level:
        yield FeatureLevelRecord(ELIGIBLE_LEADER_REPLICAS_VERSION, level)
