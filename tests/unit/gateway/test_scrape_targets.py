"""The processes of a run directory that have metrics."""

from __future__ import annotations

import os
from pathlib import Path

from tailrace.runtime.run_files import RunFile, start_ticks
from tailrace_gateway.scrape_targets import ScrapeTarget, targets_of


def test_processes_that_run_and_have_a_page_are_targets(tmp_path: Path) -> None:
    assert targets_of(tmp_path / "absent") == []
    ticks, http = start_ticks(os.getpid()), {"http": "127.0.0.1:4001"}
    RunFile("gateway", 0, os.getpid(), ticks, 0, ready=True, addresses=http).write(tmp_path)
    RunFile("broker", 1, os.getpid(), ticks, 0).write(tmp_path)  # it opens
    RunFile("quota", 0, os.getpid(), ticks + 1, 0, addresses=http).write(tmp_path)  # another process has its pid
    (tmp_path / "junk.json").write_text("[")
    assert targets_of(tmp_path) == [ScrapeTarget("gateway", 0, "127.0.0.1:4001")]
