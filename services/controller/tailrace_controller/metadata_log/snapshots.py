"""Snapshots of the metadata log: when one is due, and how the database and the followers' log get it."""

from tailrace.clock import Clock
from tailrace.metadata.image import MetadataImage
from tailrace.net import turns
from tailrace.net.metadata.batches import Snapshot, encode_snapshot_in_steps
from tailrace_controller.metadata_log.database import Database
from tailrace_controller.metadata_log.log import MetadataLog
from tailrace_controller.metadata_log.stored import StoredSnapshot

RECORDS_BETWEEN = 5_000


class Snapshots:
    """Of one controller, beside its appends, which wait for none of them."""

    def __init__(self, database: Database, clock: Clock, timeout_ms: float) -> None:
        self.records_between = RECORDS_BETWEEN
        self._database = database
        self._clock = clock
        self._timeout_ms = timeout_ms

    async def maybe_store(self, epoch: int, image: MetadataImage, log: MetadataLog) -> float | None:
        """The active controller's: stores a snapshot of the committed image if one is due, and shortens the log.

        Returns when the commit was asked for. Raises Deposed or OutcomeUnknown.
        """
        snapshot = await self._due(image, log)
        if snapshot is None:
            return None
        keep_from, timestamp_ms = log.covered, self._clock.wall_ms()
        stored = StoredSnapshot(snapshot.end_offset, snapshot.epoch, snapshot.data)
        asked_ms = await self._database.run(
            lambda opened: opened.snapshot(epoch, stored, timestamp_ms, keep_from), self._timeout_ms
        )
        log.take_snapshot(snapshot, keep_from)
        return asked_ms

    async def maybe_trim(self, image: MetadataImage, log: MetadataLog) -> None:
        """A standby's: in memory alone, so that its log does not grow without end either."""
        snapshot = await self._due(image, log)
        if snapshot is not None:
            log.take_snapshot(snapshot, log.covered)

    async def _due(self, image: MetadataImage, log: MetadataLog) -> Snapshot | None:
        """Encodes the image if there is much behind the last snapshot."""
        if image.offset + 1 - log.covered < self.records_between:
            return None
        return await turns.in_turns(encode_snapshot_in_steps(image, self._clock.wall_ms()))
