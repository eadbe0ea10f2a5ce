"""A skip needs a reason that tests/skips.txt lists; with REQUIRE_ALL=1 any other skip fails the run."""

import os
from fnmatch import fnmatch
from pathlib import Path

import pytest

LIST = Path(__file__).resolve().parents[1] / "skips.txt"


def explained() -> list[str]:
    """Patterns of test ids that may be skipped."""
    lines = (line.split("#", 1)[0].strip() for line in LIST.read_text().splitlines())
    return [line for line in lines if line]


class Skips:
    """Collects what was skipped without an entry."""

    def __init__(self) -> None:
        self.patterns = explained()
        self.unexplained: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not any(fnmatch(report.nodeid, pattern) for pattern in self.patterns):
            self.unexplained.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped and not any(fnmatch(report.nodeid, pattern) for pattern in self.patterns):
            self.unexplained.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unexplained and os.environ.get("REQUIRE_ALL") == "1":
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            print("\nSkipped without a reason in tests/skips.txt:", *self.unexplained, sep="\n  ")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Skips(), "tailrace-skips")
