"""Helm, which is built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import helm


@pytest.fixture(scope="session", autouse=True)
def helm_binary() -> Path:
    """Skipped where Helm cannot be built; with REQUIRE_ALL=1 that is a failure."""
    try:
        return helm.binary()
    except helm.NoHelm as why:
        pytest.skip(str(why))
