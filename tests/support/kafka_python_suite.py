"""kafka-python's own integration tests, from its source package (pip) into .cache/ once, run on a broker that is given.

The package lacks one module of its tests, which is written here; a folder where their broker would be started from must
be there, too.
"""

import functools
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from support import kafka_peer
from support.waiting import HUNG_S

ROOT = Path(__file__).resolve().parents[2]
VERSION = version("kafka-python")  # as constraints.txt pins it
KAFKA_VERSION = kafka_peer.VERSION
TIMEOUT_S = 600
SERVICE = '''"""What fixtures.py asks of test.service, which the source package lacks: a broker that runs already."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self): ...

    def close(self): ...


class SpawnedService: ...
'''


@dataclass(frozen=True)
class Outcome:
    """The ids of the tests, as file::name."""

    passed: tuple[str, ...]
    skipped: tuple[str, ...]
    failed: Mapping[str, str]  # with what it said


@functools.cache
def folder() -> Path:
    """The folder that holds `test/`; fetched the first time (seconds)."""
    where = ROOT / ".cache" / f"kafka-python-{VERSION}"
    if not where.is_dir():
        where.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=where.parent) as fresh:
            wanted = ("--no-deps", "--no-binary", ":all:", "--dest", fresh, f"kafka-python=={VERSION}")
            subprocess.run((sys.executable, "-m", "pip", "download", "-q", *wanted), check=True)
            (package,) = Path(fresh).glob("*.tar.gz")
            with tarfile.open(package) as source:
                source.extractall(fresh, filter="data")
            unpacked = Path(fresh, package.name.removesuffix(".tar.gz"))
            whole = Path(fresh, "suite")
            whole.mkdir()
            (unpacked / "test").rename(whole / "test")  # alone: the kafka that is tested is the installed one
            (whole / "test" / "__init__.py").touch()
            (whole / "test" / "service.py").write_text(SERVICE)
            whole.rename(where)
    (where / "servers" / KAFKA_VERSION / "kafka-bin").mkdir(parents=True, exist_ok=True)
    return where


def run(bootstrap: str, files: tuple[str, ...], left_out: tuple[str, ...], again: tuple[str, ...] = ()) -> Outcome:
    """Runs the tests of these files but those left out; of the files in `again` what failed is run once more."""
    outcome = _run(bootstrap, files, left_out)
    repeated = tuple(name for name in outcome.failed if name.partition("::")[0] in again)
    if not repeated:
        return outcome
    second = _run(bootstrap, repeated, ())
    failed = {name: why for name, why in outcome.failed.items() if name not in repeated} | dict(second.failed)
    return Outcome(outcome.passed + second.passed, outcome.skipped + second.skipped, failed)


def _run(bootstrap: str, tests: tuple[str, ...], left_out: tuple[str, ...]) -> Outcome:
    """tests: files, or file::name."""
    where = folder() / "test" / "integration"
    with tempfile.TemporaryDirectory() as fresh:
        report = Path(fresh, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, f"--rootdir={folder()}"]
        for plugin in ("randomly", "cacheprovider", "asyncio"):
            command += ["-p", f"no:{plugin}"]
        command += ["-W", "ignore", f"--timeout={HUNG_S}", f"--junitxml={report}"]
        command += [f"--deselect=test/integration/{name}" for name in left_out]
        command += [str(where / name) for name in tests]
        environ = {**os.environ, "PYTHONPATH": str(folder()), "KAFKA_VERSION": KAFKA_VERSION}
        environ["KAFKA_URI"] = f"kafka://{bootstrap}"
        environ.pop("PYTEST_ADDOPTS", None)
        done = subprocess.run(
            command, cwd=folder(), env=environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert report.exists(), done.stdout[-2000:] + done.stderr[-2000:]
        return read(ElementTree.parse(report).getroot())


def read(report: ElementTree.Element) -> Outcome:
    """What a JUnit report says."""
    passed, skipped, failed = [], [], {}
    for case in report.iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.py::{case.get('name')}"
        wrong = [child for child in case if child.tag in ("failure", "error")]
        if wrong:
            failed[name] = str(wrong[0].get("message"))[:300]
        elif any(child.tag == "skipped" for child in case):
            skipped.append(name)
        else:
            passed.append(name)
    return Outcome(tuple(passed), tuple(skipped), failed)
