"""A disk that takes long to sync, or to read a log: a library preloaded into one service, steered by a file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent / "faults" / "slow_sync.c"


def missing() -> str | None:
    """What is absent for building it, as the line that would install it."""
    return None if shutil.which("gcc") else "a C compiler: apt-get install -y gcc libc6-dev"


def build(source: Path, folder: Path) -> Path:
    """Compiles a library for LD_PRELOAD."""
    library = folder / f"{source.stem}.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library


class SlowSync:
    """`environ` belongs into the service's environment; by default nothing is slow."""

    def __init__(self, folder: Path) -> None:
        self._delay = folder / "delay"
        self.set(0)
        self.environ = {"LD_PRELOAD": str(build(SOURCE, folder)), "SYNC_DELAY_FILE": str(self._delay)}

    def set(self, delay_ms: int, read_delay_ms: int = 0) -> None:
        """How much longer each sync takes, and each read of a log that may wait for the disk: the longest from now on.

        Also of what waits already: less than it has waited lets it go on.
        """
        fresh = self._delay.with_suffix(".new")
        fresh.write_text(f"{delay_ms} {read_delay_ms}")
        fresh.replace(self._delay)
