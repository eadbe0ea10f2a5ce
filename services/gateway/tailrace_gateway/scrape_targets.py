"""Which processes of a run directory have metrics, and where: what Prometheus asks."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tailrace.runtime.run_files import RunFile


class ScrapeTarget(NamedTuple):
    """One process; address is host:port of its /metrics."""

    role: str
    service_id: int
    address: str


def targets_of(run_dir: Path) -> list[ScrapeTarget]:
    """Those that run, in order of their names. Reads files."""
    files = (RunFile.read(path) for path in sorted(run_dir.glob("*.json")))
    return [
        ScrapeTarget(file.role, file.id, file.addresses["http"])
        for file in files
        if file is not None and "http" in file.addresses and file.is_running()
    ]
