"""The logs of this machine: the journal and what is readable under /var/log, each line with where it is from."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

PATTERNS = ("*.log", "*.log.[0-9]*", "syslog*", "messages*", "secure*", "cron*", "*/*.log", "*/*.log.[0-9]*", "*/*log")
JOURNAL = ("journalctl", "--no-pager", "--quiet", "-o", "json", "-n")
LINE_BYTES_MAX = 65_536


def machine_lines(most: int, root: Path = Path("/var/log"), *, journal: bool = True) -> Iterator[tuple[str, bytes]]:
    """(source, line), at most so many from the journal and from each file, the newest; what may not be read is left."""
    if journal and shutil.which(JOURNAL[0]):
        command = (*JOURNAL, str(most))
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout
            yield from (("journal", line) for line in cleaned(process.stdout))
    for path in sorted({path for pattern in PATTERNS for path in root.glob(pattern) if path.is_file()}):
        source = str(path.relative_to(root)).removesuffix(".gz").rstrip(".0123456789").removesuffix(".log")
        yield from ((source, line) for line in newest(path, most))


def newest(path: Path, most: int) -> list[bytes]:
    """The last lines of a file, none if it is not text or may not be read."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            lines = list(cleaned(file))
    except (OSError, EOFError):
        return []
    return [] if any(b"\0" in line for line in lines[:10]) else lines[-most:]


def cleaned(stream: Iterable[bytes]) -> Iterator[bytes]:
    """Without line ends and empty lines."""
    for line in stream:
        text = line.rstrip(b"\r\n")[:LINE_BYTES_MAX]
        if text.strip():
            yield text
