"""`tailrace health`: asks every process of a run directory for one of its health pages; for a container's HEALTHCHECK.

Without argparse and typer: a container asks every few seconds, and imports are most of what that costs.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tailrace.net.address import Address
from tailrace.runtime.run_files import RunFile

USAGE = """usage: tailrace health [--data DIR | --run DIR] [--ready]

Exit code 0 if every process of the directory runs and its /healthz (with --ready: its /readyz) says 200; else 1, and
a line for each that does not. Without an option: TAILRACE_RUN_DIR, else `run` in TAILRACE_DATA_DIR, else in the
directory that `tailrace up` uses.
"""
TIMEOUT_SECONDS = 4.0
_HEAD_BYTES = 4096
_OK = b" 200 "


def main(arguments: Sequence[str], run_dir_of: Callable[[str | None], Path]) -> int:
    """Returns the exit status; run_dir_of finds the run directory of what --data names, or of nothing."""
    if {"-h", "--help"} & set(arguments):
        sys.stdout.write(USAGE)
        return 0
    page = "/readyz" if "--ready" in arguments else "/healthz"
    rest = [word for word in arguments if word != "--ready"]
    if rest and (len(rest) != 2 or rest[0] not in {"--data", "--run"}):
        sys.stderr.write(USAGE)
        return 2
    run_dir = Path(rest[1]) if rest[:1] == ["--run"] else run_dir_of(rest[1] if rest else None)
    complaints = ailing(run_dir, page)
    for complaint in complaints:
        sys.stdout.write(f"{complaint}\n")
    return 1 if complaints else 0


def ailing(run_dir: Path, page: str) -> list[str]:
    """A sentence for each process that is not well, and one where there is none at all."""
    files = [file for file in map(RunFile.read, sorted(run_dir.glob("*.json"))) if file is not None]
    roles = [file for file in files if file.role != "up"]
    if not roles:
        return [f"{run_dir} names no process"]
    return [said for file in roles if (said := _complaint(file, page))]


def _complaint(file: RunFile, page: str) -> str:
    """Empty where it is well."""
    address = file.addresses.get("http")
    if not file.is_running():
        return f"{file.name} does not run"
    if address is None:
        return f"{file.name} is not open"
    try:
        status = ask(Address.parse(address), page)
    except OSError as error:
        return f"{file.name} {address}{page}: {error}"
    return "" if _OK in status else f"{file.name} {address}{page}: {status.decode(errors='replace').strip()}"


def ask(address: Address, page: str) -> bytes:
    """The status line. Raises OSError, of which TimeoutError is one."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)
    with socket.create_connection((host, address.port), TIMEOUT_SECONDS) as sock:
        sock.settimeout(TIMEOUT_SECONDS)
        sock.sendall(f"GET {page} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        head = b""
        while b"\r\n" not in head and len(head) < _HEAD_BYTES:
            if not (piece := sock.recv(_HEAD_BYTES)):
                break
            head += piece
    return head.partition(b"\r\n")[0]
