"""A machine without Docker: the layer that needs it is left out and named; where all is required, that is a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import ROOT


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A PATH with neither docker nor apt-get, by which root would get it."""
    for name in ("nice", "git"):
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    return tmp_path


def run_layer(path: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """`./test containers -k …` behind its shell script, which would set up a virtual environment first."""
    kept = {name: value for name, value in os.environ.items() if name not in {"REQUIRE_ALL", "DOCKER_HOST"}}
    environ = {**kept, "PATH": str(path), "PYTHONPATH": str(ROOT / "tests"), **more}
    command = [sys.executable, "-m", "support.layers", "containers", "-k", "labels or compose"]
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=240)


def test_the_layer_is_left_out_and_named(path: Path) -> None:
    done = run_layer(path)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, named, closing = done.stdout.splitlines()
    assert named.startswith("left out in containers; this would install it: apt-get install -y ")
    assert "docker.io" in named
    assert closing.startswith("0 passed, 0 failed, 2 skipped")


def test_where_all_is_required_it_fails(path: Path) -> None:
    done = run_layer(path, REQUIRE_ALL="1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "left out: no Docker engine answers" in done.stdout
    assert "skipped" not in done.stdout


def test_an_engine_that_somebody_named_is_not_replaced_by_another(path: Path) -> None:
    """With the programs there, root would start a dockerd where nobody said where the engine is."""
    for name in ("docker", "dockerd", "iptables", "docker-compose", "mmdebstrap"):
        (path / name).symlink_to("/bin/false")
    done = run_layer(path, DOCKER_HOST="unix:///nonexistent.sock")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no Docker engine answers at DOCKER_HOST=unix:///nonexistent.sock" in done.stdout.splitlines()[-2]
