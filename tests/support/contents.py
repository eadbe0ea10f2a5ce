"""What files hold that may be gone before they are read: of a cluster that runs, and of processes that end."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def contents(paths: Iterable[Path]) -> dict[Path, bytes]:
    """Of the regular files among the paths that are there when they are read."""
    found = {}
    for path in paths:
        with suppress(FileNotFoundError, ProcessLookupError):
            if path.is_file():
                found[path] = path.read_bytes()
    return found
