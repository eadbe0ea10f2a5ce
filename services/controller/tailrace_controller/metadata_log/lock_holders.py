"""Who holds a lock on the metadata database: pids and commands from /proc/locks, for the log line that blames them."""

import os
from collections.abc import Iterable
from pathlib import Path

PROC_LOCKS = Path("/proc/locks")


def write_lock_holders(locks: str, inodes: Iterable[tuple[int, int, int]], own_pid: int) -> list[int]:
    """Returns the pids (not ours) with a write lock on one of the files, given as (major, minor, inode).

    Lines look like `1: POSIX  ADVISORY  WRITE 4711 fd:00:1573 120 120`; a waiting one has `->` after the number.
    """
    files = {f"{major:02x}:{minor:02x}:{inode}" for major, minor, inode in inodes}
    pids = []
    for line in locks.splitlines():
        words = line.split()
        if len(words) >= 6 and words[3] == "WRITE" and words[5] in files and words[4].isdigit():
            pid = int(words[4])
            if pid not in (0, own_pid) and pid not in pids:
                pids.append(pid)
    return pids


def describe_holders(database: Path) -> str:
    """Returns `pid 4711 (sqlite3 metadata.db)` for each process with a write lock on one of the database's files."""
    inodes = []
    for suffix in ("", "-wal", "-shm"):
        try:
            status = os.stat(f"{database}{suffix}")
        except FileNotFoundError:
            continue
        inodes.append((os.major(status.st_dev), os.minor(status.st_dev), status.st_ino))
    try:
        pids = write_lock_holders(PROC_LOCKS.read_text(), inodes, os.getpid())
    except OSError:
        pids = []
    return ", ".join(f"pid {pid} ({_command(pid)})" for pid in pids) or "a process that /proc/locks does not show"


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "gone"
