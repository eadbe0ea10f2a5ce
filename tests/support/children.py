"""The processes that a process has started."""

from contextlib import suppress
from pathlib import Path


def child_of(parent: int, module: str) -> int | None:
    """The pid of one whose command line names the module; None without any."""
    for thread in Path(f"/proc/{parent}/task").glob("*"):
        pids: list[str] = []
        with suppress(OSError):  # the thread may have ended meanwhile, and so may each child
            pids = (thread / "children").read_text().split()
        for pid in pids:
            with suppress(OSError):
                if module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return int(pid)
    return None
