"""Real lines of this machine: package manager and system logs, then the package manager's lists of files."""

from __future__ import annotations

import gzip
import itertools
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

# Logs first; the lists make up the number on a quiet machine.
PATTERNS = (
    "var/log/dpkg.log*",
    "var/log/apt/history.log*",
    "var/log/apt/term.log*",
    "var/log/alternatives.log*",
    "var/log/syslog*",
    "var/log/messages*",
    "var/log/kern.log*",
    "var/log/daemon.log*",
    "var/log/auth.log*",
    "var/log/pacman.log",
    "var/log/dnf*.log*",
    "var/lib/dpkg/info/*.list",
    "var/lib/dpkg/info/*.md5sums",
)
_JOURNAL = ("journalctl", "--no-pager", "--quiet", "-o", "short-iso", "-n", "100000")
_LINE_BYTES_MAX = 65_536


def machine_lines(root: Path = Path("/"), *, journal: bool = True) -> Iterator[bytes]:
    """Every line once, without its line end; what this user may not read is left out."""
    if journal and shutil.which(_JOURNAL[0]):
        with subprocess.Popen(_JOURNAL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout
            yield from _cleaned(process.stdout)
            process.kill()
    for pattern in PATTERNS:
        for path in sorted(root.glob(pattern)):
            try:
                with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                    yield from _cleaned(file)
            except (OSError, EOFError):
                continue


def take(count: int, root: Path = Path("/"), *, journal: bool = True) -> tuple[list[bytes], int]:
    """`count` lines and how many different ones there were; where there are fewer they come round again."""
    lines = list(itertools.islice(machine_lines(root, journal=journal), count))
    distinct = len(lines)
    if not lines:
        return [], 0
    return list(itertools.islice(itertools.cycle(lines), count)), distinct


def _cleaned(stream: Iterable[bytes]) -> Iterator[bytes]:
    for line in stream:
        text = line.rstrip(b"\r\n")[:_LINE_BYTES_MAX]
        if text:
            yield text
