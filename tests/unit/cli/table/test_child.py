"""The worker of tables as a child of `up`: what it refuses before it connects."""

from __future__ import annotations

import pytest
import structlog
from structlog.testing import capture_logs

from tailrace.cli.table.child import live_worker


class Unheard:
    """A parent that must not be told anything."""

    def opened(self, addresses: dict[str, str]) -> None:
        raise AssertionError

    def ready(self) -> None:
        raise AssertionError

    def ask_for(self, process: str) -> None:
        raise AssertionError


def test_the_environment_names_the_schema_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_SCHEMA_REGISTRY", "file:///etc/passwd")
    with capture_logs() as lines:
        log = structlog.get_logger()
        assert live_worker("127.0.0.1:1", "/srv", log, Unheard()) == 1
    assert lines[0]["why"] == "expected http://HOST:PORT or https://HOST:PORT of a schema registry"
