"""The load client: built with gcc on first use, run once per measurement."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent / "client"
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "bench"
FLAGS = ["-O2", "-std=gnu11", "-Wall", "-Wextra", "-Wshadow", "-Werror"]

Result = dict[str, Any]


class LoadFailed(RuntimeError):
    """The load client ended with an error; the text is what it said."""


def missing() -> str | None:
    """Says what is absent for building the client, as the line that would install it."""
    return None if shutil.which("gcc") else "a C compiler: apt-get install -y gcc libc6-dev"


def build() -> Path:
    """The compiled client; compiles when the sources are newer than the last build."""
    files = sorted(SOURCES.glob("*.[ch]"))
    version = hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:16]
    binary = CACHE / f"load-{version}"
    if not binary.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        fresh = binary.with_suffix(".new")
        sources = [str(f) for f in files if f.suffix == ".c"]
        subprocess.run(["gcc", *FLAGS, "-o", str(fresh), *sources], check=True)
        fresh.rename(binary)
    return binary


def load(
    address: str, topic: str, options: Mapping[str, object], pids: Sequence[int] = (), timeout_s: float = 120
) -> Result:
    """Runs one load and answers its figures; options are the client's flags, True sets one without value."""
    command = [str(build()), "--address", address, "--topic", topic]
    for name, value in options.items():
        command += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    if pids:
        command += ["--pids", ",".join(map(str, pids))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise LoadFailed(f"no end after {timeout_s:.0f} s") from None
    if done.returncode:
        raise LoadFailed(done.stderr.strip() or f"exit code {done.returncode}")
    result: Result = json.loads(done.stdout)
    return result
