"""A wall clock that somebody sets while a service runs: a library preloaded into it, steered by a file."""

from __future__ import annotations

import struct
from pathlib import Path

from support.slow_sync import build

SOURCE = Path(__file__).parent / "faults" / "clock_skew.c"


class ClockSkew:
    """`environ` belongs into the services' environment; by default the clock is right."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "skew"
        self.set(0)
        self.environ = {"LD_PRELOAD": str(build(SOURCE, folder)), "CLOCK_SKEW_FILE": str(self._file)}

    def set(self, seconds: float) -> None:
        """How far ahead of ours the services' wall clocks are from now on; their monotonic clocks go on as they are."""
        with open(self._file, "r+b" if self._file.exists() else "wb") as file:  # the services map this very file
            file.write(struct.pack("=d", seconds))
