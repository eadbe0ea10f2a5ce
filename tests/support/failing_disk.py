"""A disk that fails: a library preloaded into one service, steered by a file."""

from __future__ import annotations

import errno
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent / "faults" / "failing_disk.c"
SYNC, WRITE = 1, 2


def missing() -> str | None:
    """What is absent for building it, as the line that would install it."""
    return None if shutil.which("gcc") else "a C compiler: apt-get install -y gcc libc6-dev"


class FailingDisk:
    """`environ` belongs into the service's environment; by default nothing fails."""

    def __init__(self, folder: Path) -> None:
        library = folder / "failing_disk.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"], check=True)
        self._fault = folder / "fault"
        self.heal()
        self.environ = {"LD_PRELOAD": str(library), "DISK_FAULT_FILE": str(self._fault)}

    def fail(self, below: Path, what: int, number: int = errno.EIO) -> None:
        """From now on calls of a kind (SYNC, WRITE or both) on files below a folder fail."""
        self._say(f"{number} {what} {below.resolve()}")

    def heal(self) -> None:
        """The disk says yes again, whatever it forgot."""
        self._say("")

    def _say(self, text: str) -> None:
        fresh = self._fault.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self._fault)
