"""Who holds a TCP port: a process by its pid and command, and whether it is a Tailrace.

A command line proves nothing: it may name a folder called tailrace. A Tailrace is known by its run file, which names
its pid and start time and lies in a folder that the process itself has open: as `up.lock`, or by a role's Unix socket.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tailrace.runtime.run_files import RunFile

_LISTENING = "0A"
_LOCK = "up.lock"


class PortHolder(NamedTuple):
    """A process; `is_tailrace` where it is an `up`, or a role started by hand."""

    pid: int
    command: str
    is_tailrace: bool


def holder_of(port: int) -> PortHolder | None:
    """Who listens on a TCP port, as far as this user may see (proc_net(5), proc_pid_fd(5))."""
    inodes = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not inodes:
        return None
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and not inodes.isdisjoint(_open_files(process)):
            return _described(process)
    return None


def _described(process: Path) -> PortHolder:
    pid = int(process.name)
    try:
        command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it ended meanwhile
        return PortHolder(pid, "just ended", is_tailrace=False)
    up = run_file_of(parent)
    if up is not None and up.role == "up":  # a killed child would be started again
        return PortHolder(parent, command, is_tailrace=True)
    return PortHolder(pid, command, run_file_of(pid) is not None)


def run_file_of(pid: int) -> RunFile | None:
    """What a running `up` or role says of itself; None for every other process, and where that may not be read."""
    for folder in {path.parent for path in _paths_in_run_dir(Path(f"/proc/{pid}"))}:
        for path in folder.glob("*.json"):
            found = RunFile.read(path)
            if found is not None and found.pid == pid and found.is_running():
                return found
    return None


def _paths_in_run_dir(process: Path) -> Iterator[Path]:
    """The lock of an `up` and the Unix sockets that a process has open; a path holds for us if we see the same root."""
    opened = _open_files(process)
    yield from (Path(name) for name in opened if name.endswith(f"/{_LOCK}"))
    try:
        rows = (process / "net" / "unix").read_text().splitlines()[1:]
    except OSError:
        return
    for row in rows:
        fields = row.split(maxsplit=7)
        if len(fields) > 7 and fields[7].startswith("/") and f"socket:[{fields[6]}]" in opened:
            yield Path(fields[7])


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _open_files(process: Path) -> set[str]:
    """None of them where the process is somebody else's or has ended."""
    found = set()
    with contextlib.suppress(OSError):
        for entry in (process / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.add(os.readlink(entry))
    return found
