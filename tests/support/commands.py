"""Commands of the test layers: shown as they run, one alone or two side by side."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from support.ports import HIGHEST, LOWEST

ROOT = Path(__file__).resolve().parents[2]
MIDDLE = (LOWEST + HIGHEST) // 2
# Two that run side by side choose their ports where the other does not.
LOWER, UPPER = f"{LOWEST}-{MIDDLE}", f"{MIDDLE}-{HIGHEST}"


def environment(before: Path | None) -> dict[str, str]:
    """A command's environment; Python finds what is in `before` first."""
    paths = [*([str(before)] if before else []), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def stream(command: Sequence[str], environ: Mapping[str, str]) -> tuple[int, str]:
    """Runs a command, shows its output as it comes, returns its status and its last line."""
    with subprocess.Popen(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        last = show(process.stdout)
    return process.returncode, last


def side_by_side(first: Sequence[str], second: Sequence[str], environ: Mapping[str, str]) -> list[tuple[int, str]]:
    """Runs two commands at once; shows the first as it runs, then the second. Returns what `stream` does, of each."""
    with running(second, {**environ, "TEST_PORTS": UPPER}) as (process, output):
        done = [stream(first, {**environ, "TEST_PORTS": LOWER})]
        status = process.wait()
        output.seek(0)
        return [*done, (status, show(output))]


@contextmanager
def running(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], IO[str]]]:
    """A command whose output is kept in a file; ended with this block if it still runs."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process, output
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()


def show(lines: IO[str]) -> str:
    """Prints the lines as they come; returns the last that says something."""
    last = ""
    for line in lines:
        sys.stdout.write(line)
        sys.stdout.flush()
        last = line.strip() or last
    return last
