"""The extra `tailrace[frames]`: pyarrow, polars, duckdb and pytz, which no service and no other command needs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

INSTALL: Final = 'pip install "tailrace[frames]"'


class MissingExtraError(ImportError):
    """A library of the extra is not installed; the text has the command that installs it."""


def check_installed(*names: str) -> None:
    """Raises MissingExtraError for the first that is missing."""
    for name in names:
        if find_spec(name) is None:
            raise MissingExtraError(f"{name} is not installed: {INSTALL}")
