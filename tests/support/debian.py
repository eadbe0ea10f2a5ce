"""Debian packages, installed where that is possible; one apt at a time, whatever layers prepare beside each other."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

APT = ("apt-get", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3")
LOCK = Path("/tmp/tailrace-tests-apt.lock")


@contextmanager
def _alone() -> Iterator[None]:
    """apt waits for dpkg's lock, but not for that of the package lists."""
    with LOCK.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(packages: Sequence[str]) -> str | None:
    """Installs them; returns the line that would, where this user or this system cannot."""
    line = f"apt-get install -y {' '.join(packages)}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return line
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _alone():
        subprocess.run((*APT, "update", "-qq"), env=quiet, check=False)
        command = (*APT, "install", "-y", "-qq", "--no-install-recommends", *packages)
        done = subprocess.run(command, env=quiet, check=False, stdout=subprocess.DEVNULL)
    return None if done.returncode == 0 else line
