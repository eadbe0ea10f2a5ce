"""What each file of tests took, noted by the plugin and shown for the slowest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.commands import ROOT
from support.layers import slowest


def test_the_seconds_of_every_file_are_noted(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_a(): ...\ndef test_b(): ...\n")
    (tmp_path / "test_two.py").write_text("def test_a(): ...\n")
    times = tmp_path / "times.tsv"
    command = (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        str(tmp_path / "no.ini"),
        "-p",
        "support.layers.slowest",
        str(tmp_path),
    )
    (tmp_path / "no.ini").write_text("[pytest]\n")
    subprocess.run(
        command, check=True, capture_output=True, env={"PYTHONPATH": f"{ROOT}/tests", slowest.VARIABLE: str(times)}
    )
    assert sorted(line.split("\t")[2] for line in times.read_text().splitlines()) == ["test_one.py", "test_two.py"]


def test_the_ten_slowest_are_shown_longest_first(tmp_path: Path) -> None:
    times = tmp_path / "times.tsv"
    times.write_text("".join(f"{seconds}.00\t0.10\ttest_{seconds}.py\n" for seconds in range(12)))
    shown = slowest.table(times)
    assert [line.split()[-1] for line in shown] == [f"test_{seconds}.py" for seconds in range(11, 1, -1)]
    assert slowest.table(tmp_path / "nothing.tsv") == []
