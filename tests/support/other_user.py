"""What another user of this machine gets at: tried by a process that gave root's rights away."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

NOBODY = 65_534
_LISTEN = "0A"  # its state in /proc/net/tcp
_TRY = f"""
import json, os, socket, sys
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
got = []
for path in json.load(sys.stdin):
    for name, flags in (("read", os.O_RDONLY), ("write", os.O_WRONLY)):
        try:
            os.close(os.open(path, flags | os.O_NONBLOCK))
            got.append([name, path])
        except OSError:
            pass
    try:
        os.listdir(path)
        got.append(["list", path])
    except OSError:
        pass
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(path)
            got.append(["connect", path])
    except OSError:
        pass
print(json.dumps(got))
"""


def reached(paths: Iterable[Path]) -> list[list[str]]:
    """[what, path] for all that nobody could read, write, list or connect to."""
    given = json.dumps([str(path) for path in paths])
    done = subprocess.run(
        [sys.executable, "-c", _TRY], input=given, capture_output=True, check=True, text=True, timeout=60
    )
    got: list[list[str]] = json.loads(done.stdout)
    return got


def open_to_others(root: Path) -> list[str]:
    """Files and folders below root that have a right for group or others."""
    found = []
    for path in sorted(root.rglob("*")):
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
        except FileNotFoundError:  # replaced or removed meanwhile
            continue
        if mode & 0o077 and not path.is_symlink():
            found.append(f"{path.relative_to(root)} {mode:o}")
    return found


def listening_ports(pid: int) -> set[int]:
    """TCP ports that a process listens on, of both address families."""
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(os.readlink(entry))
        except OSError:  # closed meanwhile
            continue
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN and f"socket:[{fields[9]}]" in sockets:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports
