"""The extra `tailrace[tables]`: pyarrow and deltalake, which no service needs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

INSTALL: Final = 'pip install "tailrace[tables]"'
_MODULES: Final = ("pyarrow", "deltalake")


def is_installed() -> bool:
    return all(find_spec(name) is not None for name in _MODULES)
