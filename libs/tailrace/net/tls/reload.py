"""The context of new connections: made again when its files have changed on the disk, looked at once a second at most.

As Apache Kafka does when its config is altered. Connections that are open keep what they have.
"""

from __future__ import annotations

import os
import ssl

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.config import ConfigError
from tailrace.net.tls.settings import TlsSettings, server_context

LOOK_EVERY_MS = 1_000.0


class ServerContexts:
    """Raises ConfigError where the first one cannot be made; later ones that cannot leave the last good one."""

    def __init__(self, settings: TlsSettings, clock: Clock, log: FilteringBoundLogger) -> None:
        self._settings = settings
        self._clock = clock
        self._log = log
        self._looked_ms = clock.monotonic_ms()
        self._seen = self._stamps()
        self._context = server_context(settings, clock.wall_ms())

    def current(self) -> ssl.SSLContext:
        """For a new connection."""
        now_ms = self._clock.monotonic_ms()
        if self._settings.files and now_ms - self._looked_ms >= LOOK_EVERY_MS:
            self._looked_ms = now_ms
            stamps = self._stamps()
            if stamps != self._seen:
                self._seen = stamps
                self._reload()
        return self._context

    def _reload(self) -> None:
        try:
            self._context = server_context(self._settings, self._clock.wall_ms())
        except ConfigError as wrong:
            self._log.error("certificates not reloaded", why=str(wrong))
        else:
            self._log.info("certificates reloaded")

    def _stamps(self) -> list[tuple[int, ...]]:
        """What changes with each file's content."""
        stamps: list[tuple[int, ...]] = []
        for path in self._settings.files:
            try:
                found = os.stat(path)
            except OSError:
                stamps.append((0,))
            else:
                stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
        return stamps
