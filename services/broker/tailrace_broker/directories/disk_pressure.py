"""Free space of the log dirs, measured each second and after every few megabytes, and what follows for each dir."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from tailrace.log.directory.disk_pressure import Level, Pressure, judge, marks

if TYPE_CHECKING:
    from tailrace.config import Config
    from tailrace.log.directory.log_dir import LogDir
    from tailrace_broker.directories.storage import Storage
    from tailrace_broker.partitions.partition import Partition

_LEAST_STEP, _MOST_STEP = 64 << 10, 16 << 20


class DiskPressure:
    """`any` is False while no dir has too little space: all that the hot path looks at then."""

    def __init__(
        self, storage: Storage, config: Config, space: Callable[[str], tuple[int, int]], log: FilteringBoundLogger
    ) -> None:
        """space: (total, usable) bytes of the file system that a path lies on."""
        self._storage = storage
        self._config = config
        self._space = space
        self._log = log
        self._left = 0  # bytes that may be appended before the space is measured again
        self.any = False
        self.dirs: dict[LogDir, Pressure] = {}
        self.refused_batches = 0
        self.throttled_requests = 0
        self.measure()

    def reconfigure(self, config: Config) -> None:
        """The marks may be others now (KIP-226)."""
        self._config = config
        self.measure()

    def measure(self) -> None:
        """Looks at every dir; says in one line when one's level changes."""
        found: dict[LogDir, Pressure] = {}
        step = _MOST_STEP
        for log_dir in self._storage.dirs:
            try:
                total_bytes, usable_bytes = self._space(log_dir.path)
            except OSError:
                continue  # a failed disk is another matter (KIP-858)
            config = self._config
            at = marks(total_bytes, config.log_dir_pressure_slow_bytes, config.log_dir_pressure_refuse_bytes)
            found[log_dir] = judge(usable_bytes, at)
            # A quarter of the reserve may be gone before it is noticed, never all of it.
            step = min(step, max(_LEAST_STEP, at.refuse_bytes // 4))
            self._report(log_dir, found[log_dir], at.slow_bytes)
        self._left = step
        self.dirs = found
        self.any = any(pressure.level != Level.NONE for pressure in found.values())

    def appended(self, size_bytes: int) -> None:
        """So much was just written."""
        self._left -= size_bytes
        if self._left < 0:
            self.measure()

    def on(self, partition: Partition) -> tuple[LogDir, Pressure] | None:
        """What holds where the partition lives, or its first batch would go; None without pressure."""
        log_dir = self._storage.place_of(partition.topic, partition.index)
        pressure = None if log_dir is None else self.dirs.get(log_dir)
        if log_dir is None or pressure is None or pressure.level == Level.NONE:
            return None
        return log_dir, pressure

    def stops_following(self, partition: Partition) -> bool:
        """Whether a follower leaves this partition's records with its leader for now."""
        if not self.any or partition.internal:
            return False
        found = self.on(partition)
        return found is not None and found[1].refuses_followers

    def worst(self) -> Pressure | None:
        """Of all dirs, None if none could be measured."""
        return min(
            self.dirs.values(), key=lambda pressure: (-pressure.throttle_time_ms, pressure.usable_bytes), default=None
        )

    def _report(self, log_dir: LogDir, now: Pressure, slow_bytes: int) -> None:
        before = self.dirs.get(log_dir)
        if now.level == (Level.NONE if before is None else before.level):
            return
        say = self._log.info if now.level == Level.NONE else self._log.warning
        say(
            "disk pressure",
            log_dir=log_dir.path,
            producers="taken" if now.level == Level.NONE else now.level.value,
            usable_bytes=now.usable_bytes,
            slow_bytes=slow_bytes,
            refuse_bytes=now.refuse_bytes,
        )
