"""How long partitions acknowledged nothing after a kill. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Iterable


class Silence:
    """The longest time between two acknowledgements of one partition, from the last before the kill on."""

    def __init__(self, partitions: Iterable[int]) -> None:
        self._last_record_ms: dict[int, float | None] = dict.fromkeys(partitions)
        self._began_ms: float | None = None
        self.longest_ms = 0.0

    def began(self, now_ms: float) -> None:
        """The kill is now."""
        self._began_ms = now_ms

    def on_record(self, partition: int, now_ms: float) -> None:
        """One acknowledgement; those of other partitions do not count."""
        if partition not in self._last_record_ms:
            return
        if self._began_ms is not None:
            before_ms = self._last_record_ms[partition]
            self.longest_ms = max(self.longest_ms, now_ms - (self._began_ms if before_ms is None else before_ms))
        self._last_record_ms[partition] = now_ms
