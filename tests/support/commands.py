"""Commands that tests and layers run in the root of the project."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]


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
