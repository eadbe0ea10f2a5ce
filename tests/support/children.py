"""The processes that a process has started."""

from contextlib import suppress
from pathlib import Path


def child_of(parent: int, module: str) -> int | None:
    """The pid of one whose command line names the module; None without any."""
    for children in Path(f"/proc/{parent}/task").glob("*/children"):
        for pid in children.read_text().split():
            with suppress(OSError):  # it may have ended meanwhile
                if module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return int(pid)
    return None
