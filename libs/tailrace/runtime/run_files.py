"""`<role>-<id>.pid` and `<role>-<id>.json` in the run directory: who runs, where it answers, and who died.

Both are replaced atomically. A pid alone may have been given to another process since; the start time (in clock ticks
since boot, from /proc) tells.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tailrace.private_files import private_opener


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """TAILRACE_DATA_DIR, else the user's data directory: `up` finds its cluster again from every working directory."""
    if chosen := environ.get("TAILRACE_DATA_DIR"):
        return Path(chosen)
    return Path(environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "tailrace"


@dataclass(frozen=True, slots=True)
class RunFile:
    """One running process; `since_ms` is wall time, a negative id means that there is one of its kind."""

    role: str
    id: int
    pid: int
    start_ticks: int
    since_ms: int
    ready: bool = False
    addresses: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.role if self.id < 0 else f"{self.role}-{self.id}"

    def write(self, run_dir: Path) -> None:
        replace(run_dir / f"{self.name}.pid", f"{self.pid}\n")
        replace(run_dir / f"{self.name}.json", json.dumps(asdict(self), indent=2) + "\n")

    def remove(self, run_dir: Path) -> None:
        for ending in ("pid", "json"):
            (run_dir / f"{self.name}.{ending}").unlink(missing_ok=True)

    def died(self, run_dir: Path) -> None:
        """Says that it has ended by itself, until it is started again or the cluster is stopped."""
        (run_dir / f"{self.name}.pid").unlink(missing_ok=True)
        dead = RunFile(self.role, self.id, self.pid, 0, self.since_ms)
        replace(run_dir / f"{self.name}.json", json.dumps(asdict(dead), indent=2) + "\n")

    def is_running(self) -> bool:
        return self.start_ticks == start_ticks(self.pid) != 0  # 0: it was gone already when this was written

    @classmethod
    def read(cls, path: Path) -> RunFile | None:
        """None where the file is missing or not ours."""
        try:
            return cls(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return None


def replace(path: Path, text: str) -> None:
    """Writes a file so that readers see the old text or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "w", opener=private_opener) as file:
        file.write(text)
    temporary.replace(path)


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot (proc_pid_stat(5), field 22); 0 if it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    fields = stat[stat.rindex(")") + 2 :].split()
    return 0 if fields[0] in {"Z", "X"} else int(fields[19])


def boot_id() -> str:
    """Names this boot of this machine (random(4)) and this root of a file tree; empty where the kernel does not say.

    Containers of one machine have its boot in common, but not their Unix sockets: each has a root of its own.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        root = os.stat("/")
    except OSError:
        return ""
    return f"{boot}@{root.st_dev:x}-{root.st_ino:x}"
