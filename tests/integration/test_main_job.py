"""The main job as `./run` does it: a leader killed in the middle, also where the directory began with one broker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.ports import free_ports

DEMO = (sys.executable, "-m", "tailrace.cli", "demo", "--once", "--lines", "6000")
pytestmark = pytest.mark.timeout(600)  # two jobs, of which each may have its 280 s
ENDS = "no line that was acknowledged is lost, and none is there twice."


def demo(data_dir: Path, *arguments: str) -> str:
    """What the job says; it must end well."""
    ports = ("--port", str(free_ports(3)), "--admin-port", "0")
    command = [*DEMO, "--data", str(data_dir), *ports, *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        stdin=subprocess.DEVNULL,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("first_brokers", [1, 3])
def test_a_leader_is_killed_in_the_middle_and_nothing_is_lost(tmp_path: Path, first_brokers: int) -> None:
    if first_brokers == 1:
        assert ENDS not in demo(tmp_path, "--brokers", "1")
    said = demo(tmp_path)
    assert ("making 3 copies" in said) == (first_brokers == 1)
    assert "KILLED" in said
    assert "all 3 copies are in sync" in said
    assert ENDS in said
