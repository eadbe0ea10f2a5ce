"""The extra `tailrace[tables]`: pyarrow, deltalake and fastavro, which no service needs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

INSTALL: Final = 'pip install "tailrace[tables]"'
_MODULES: Final = ("pyarrow", "deltalake", "fastavro")


def is_installed() -> bool:
    return all(find_spec(name) is not None for name in _MODULES)
