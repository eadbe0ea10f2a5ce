"""The archive that spark-submit is given has all that the jobs import and a stock image of Spark has not."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "spark.md"
STOCK = ("pyspark", "py4j")
PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:]
from tailrace_spark import cli, jobs
assert cli.__file__.startswith(sys.argv[1])
for name in jobs.JOBS.keys() - {"demo"}:  # which starts a cluster on this machine
    assert cli.run([*name.split(), "--help"]) == 0
"""


def folder(name: str) -> Path:
    """Where an importable package is."""
    spec = find_spec(name)
    assert spec and spec.origin
    return Path(spec.origin).parent


def test_every_job_is_imported_from_the_archive(tmp_path: Path) -> None:
    found = re.search(r"python -m zipfile -c \S+ ([\w ]+)\)", DOCS.read_text())
    assert found
    command = [sys.executable, "-m", "zipfile", "-c", str(tmp_path / "jobs.zip")]
    subprocess.run([*command, *(str(folder(name)) for name in found[1].split())], check=True)
    assert "tailrace_spark/cli.py" in zipfile.ZipFile(tmp_path / "jobs.zip").namelist()
    stock = tmp_path / "stock"
    stock.mkdir()
    for name in STOCK:
        (stock / name).symlink_to(folder(name))
    alone = [sys.executable, "-I", "-S", "-c", PROGRAM, str(tmp_path / "jobs.zip"), str(stock)]
    done = subprocess.run(alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
