"""The machine and the versions that a figure was measured with."""

import os
import platform
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from support.kafka_peer import VERSION


def _line_after(file: str, key: str) -> str:
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return "unknown"


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "not there"
    return (done.stdout or done.stderr).partition("\n")[0].strip()


def congestion_control() -> str:
    """How TCP finds its rate: one that paces (bbr) sends large answers otherwise than one that does not (cubic)."""
    file = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    return file.read_text(encoding="utf-8").strip() if file.exists() else "unknown"


def filesystem(folder: Path) -> str:
    """The type of the file system that a folder is on, by the longest mount point above it."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    above = [(point, kind) for point, kind in mounts if folder.resolve().is_relative_to(point)]
    return max(above, key=lambda mount: len(mount[0]), default=("", "unknown"))[1]


def fresh_folder(stack: ExitStack, within: Path | None = None) -> Path:
    """A folder that is removed with the stack: on tmpfs where there is one, unless it is said where."""
    shared_memory = Path("/dev/shm")
    within = within or (shared_memory if shared_memory.is_dir() else None)
    folder = Path(tempfile.mkdtemp(prefix="tailrace-bench-", dir=within))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def memory_bytes(key: str) -> int:
    """MemTotal, MemFree or another line of /proc/meminfo."""
    return int(_line_after("/proc/meminfo", key).split()[0]) * 1024


def describe(*, kafka: bool = True) -> list[str]:
    """Two lines for the report; kafka: whether the section also measures Apache Kafka, and has a client in C."""
    memory_gib = memory_bytes("MemTotal") / 2**30
    processor = _line_after("/proc/cpuinfo", "model name")
    versions = (
        f"Tailrace at commit {_first_line('git', 'rev-parse', '--short', 'HEAD')}, Python {platform.python_version()}"
    )
    if kafka:
        versions += f"; Apache Kafka {VERSION} on {_first_line('java', '-version')}; {_first_line('gcc', '--version')}"
    return [
        f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC on {processor}, {os.cpu_count()} CPUs shared by servers and "
        f"load client, {memory_gib:.0f} GiB, Linux {platform.release()}, TCP {congestion_control()}.",
        f"{versions}.",
    ]
