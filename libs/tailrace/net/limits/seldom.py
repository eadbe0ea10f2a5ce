"""A warning that strangers can cause: some lines in ten seconds, then the number of those that were left out."""

from __future__ import annotations

from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

EVERY_MS = 10_000.0
LINES = 10


class SeldomWarning:
    """Says an event of the log, at most LINES times in EVERY_MS; the first line after that says how many it was not."""

    def __init__(self, log: FilteringBoundLogger, now_ms: Callable[[], float], event: str) -> None:
        self._log = log
        self._now_ms = now_ms
        self._event = event
        self._until_ms = float("-inf")
        self._lines = 0
        self._left_out = 0

    def say(self, **fields: object) -> None:
        """Writes the line, or counts it; a field that can be called is made for a line that is written."""
        now_ms = self._now_ms()
        if now_ms >= self._until_ms:
            self._until_ms, self._lines = now_ms + EVERY_MS, 0
        self._lines += 1
        if self._lines > LINES:
            self._left_out += 1
            return
        left_out, self._left_out = self._left_out, 0
        more = {"more_since_the_last_line": left_out} if left_out else {}
        made = {name: value() if callable(value) else value for name, value in fields.items()}
        self._log.warning(self._event, **made, **more)
