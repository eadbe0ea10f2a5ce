"""The wheel and the source distribution: complete, and what they install works where there is no source tree."""

from __future__ import annotations

import re
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from support.commands import ROOT
from support.packages import Built, Installed, build, install, pythons
from support.typed_commands import ASKING, MORE, command_names, right
from support.waiting import HUNG_S
from tailrace import __version__
from tailrace.cli.daily.reassignments import as_text
from tailrace.testing import Cluster

PACKAGES = (ROOT / "libs" / "tailrace", *sorted(ROOT.glob("services/*/tailrace_*")), ROOT / "spark" / "tailrace_spark")
PYTHONS = pythons()
THIS_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
# With one broker, no transaction and no user: refused in words, after all that they import.
REFUSED = {
    *("acl create", "acl delete", "acl list"),  # without an authorizer
    "broker drain",
    "broker unregister",
    "quota delete",
    "transaction abort",
    "transaction describe",
    "transaction terminate",
    *("user delete", "user password"),
}
# Services, which `up` starts, and what has a test of its own that needs more than the wheel.
ELSEWHERE = {
    *("controller", "coordinator", "gateway", "demo", "import-kafka", "export-kafka"),
    *("cert create", "cert list", "cert renew"),
    "user reset-admin",
}
pytestmark = pytest.mark.timeout(900)  # a machine that does much else compiles and starts five services slowly


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("dist"))


def names(folder: Path, below: Path) -> set[str]:
    """The files of a folder, seen from another."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    return {path.relative_to(below).as_posix() for path in found}


def test_the_wheel_has_every_file_of_every_package(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        inside = set(wheel.namelist())
    wanted = set().union(*(names(package, package.parent) for package in PACKAGES))
    assert wanted - inside == set()
    assert {name for name in inside - wanted if ".dist-info/" not in name} == set()
    assert {f"{package.name}/py.typed" for package in PACKAGES} <= inside
    assert f"tailrace-{__version__}.dist-info/licenses/LICENSE" in inside


def test_the_source_distribution_has_what_is_built_tested_and_read_and_nothing_else(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        inside = {member.name.partition("/")[2] for member in sdist.getmembers()}
    wanted = {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml", "constraints.txt", "test"}
    wanted |= names(ROOT / "docs", ROOT) | names(ROOT / "tests", ROOT) | names(ROOT / "deploy", ROOT)
    assert wanted - inside == set()
    assert {name.partition("/")[0] for name in inside} == {
        *(
            "libs",
            "services",
            "spark",
            "docs",
            "deploy",
            "tests",
            ".ci",
            ".gitignore",
            ".dockerignore",
            "run",
            "demo-spark",
            "PKG-INFO",
        ),
        *(name for name in wanted if "/" not in name),
    }


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Installed]:
    """The environment of a Python with the wheel alone, made once; its variables are a test's own."""
    made = cache(lambda version: install(str(built.wheel), tmp_path_factory.mktemp("wheel"), PYTHONS[version]))
    return lambda version: replace(made(version), environ=dict(made(version).environ))


@pytest.mark.parametrize("version", PYTHONS)
def test_an_environment_with_the_wheel_alone_runs_a_cluster_its_console_and_the_commands(
    installed: Callable[[str], Installed], version: str
) -> None:
    there = installed(version)
    place = there.run("python", "-c", "import tailrace, tailrace_gateway as g; print(tailrace.__file__, g.__file__)")
    assert place.count(f"{there.folder.parent}/") == 2
    assert there.run("tailrace", "--version") == f"tailrace {__version__}\n"
    assert "suggestions lookup" in there.run("tailrace-spark", "--help")
    with Cluster(command=(str(there.bin / "tailrace"), "up"), environ=there.environ) as cluster:
        there.environ["TAILRACE_BOOTSTRAP"] = cluster.bootstrap
        there.run("tailrace", "topic", "create", "orders")
        there.run("tailrace", "produce", "orders", typed="2 apples\n1 pear\n")
        read = there.run("tailrace", "consume", "orders", "--count", "2", "--from-beginning")
        assert read.splitlines()[:2] == ["2 apples", "1 pear"]
        assert "controller-0" in there.run("tailrace", "status", "--data", cluster.data_dir)
        assert console(cluster.admin) >= {"static/console/main.js", "static/docs/swagger-ui-bundle.js"}


def test_every_command_runs_where_only_the_wheel_is_installed(installed: Callable[[str], Installed]) -> None:
    there = installed(THIS_PYTHON)
    settings = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
    with Cluster(command=(str(there.bin / "tailrace"), "up"), environ=there.environ, settings=settings) as cluster:
        there.environ.update({"TAILRACE_BOOTSTRAP": cluster.bootstrap, "TAILRACE_ADMIN": cluster.admin})
        for codec in ("uncompressed", "gzip", "snappy", "lz4", "zstd"):
            there.run("tailrace", "topic", "create", codec, "-p", "1", "-c", f"compression.type={codec}")
            there.run("tailrace", "produce", codec, typed="one\ntwo\n")
            for more in ((), ("--group", "readers")):
                read = there.run("tailrace", "consume", codec, "--from-beginning", "--count", "2", *more)
                assert read == "one\ntwo\n", (codec, more)
        there.run("tailrace", "topic", "create", "orders", "-p", "2")
        (there.folder / "plan").write_text(as_text({("orders", 0): (0,)}))
        words = {"plan": str(there.folder / "plan"), "log_dir": str(cluster.data_dir / "broker-0")}
        asking = sorted([*ASKING.items(), *MORE], key=lambda row: row[0].endswith(" delete"))  # which needs no topic
        for path, arguments in asking:
            line = [word.format(**words) for word in right(path, arguments)]
            said = there.run("tailrace", *line, status=int(path in REFUSED))
            assert "Traceback" not in said and "No module named" not in said, (line, said)
        there.run("tailrace", "status")
        assert "the record is read back" in there.run("tailrace", "doctor", "--write")
        for measured in ("produce", "consume", "end-to-end"):
            said = there.run("tailrace", "perf", measured, "-t", "zstd", "--num-records", "20")
            assert said.startswith("20 records "), said
        there.run("tailrace", "quota", "top")
        there.run("tailrace", "health", "--data", cluster.data_dir)
        segment = next((cluster.data_dir / "broker-0" / "zstd-0").glob("*.log"))
        assert "one" in there.run("tailrace", "dump-log", segment, "--deep")
        assert "is in use" in there.run("tailrace", "verify-log", segment.parent, status=2)
        assert "tailrace" in there.run("tailrace", "completion", "bash")
        assert "tailrace[tables]" in there.run("tailrace", "table", "run", "--target", there.folder, status=1)
        assert "tailrace[frames]" in there.run("tailrace", "sql", "select 1", status=1)
        tried = {
            "sql",
            *ASKING,
            "completion",
            "status",
            "quota top",
            "health",
            "dump-log",
            "verify-log",
            "up",
            "table run",
            "doctor",
        }
        tried |= {"perf produce", "perf consume", "perf end-to-end"}
        assert set(command_names()) - tried == ELSEWHERE


def test_the_example_for_tests_runs_there_and_pytest_finds_the_fixtures_by_itself(built: Built, tmp_path: Path) -> None:
    there = install(f"tailrace[testing] @ file://{built.wheel}", tmp_path, sys.executable)
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    *examples, (last, _) = re.findall(r"<!-- (\w+\.py) -->\n```python\n(.*?)```", page, re.DOTALL)
    assert last == "test_in_a_container.py"  # which tests/containers runs
    assert [name for name, _ in examples] == ["conftest.py", "test_orders.py"]
    for name, text in examples:
        (there.folder / name).write_text(text)
    assert "3 passed" in there.run("pytest", "-q")
    assert "tailrace_topic" in there.run("pytest", "--fixtures", "-q")


def test_a_topic_is_a_data_frame_where_the_extra_is_installed(built: Built, tmp_path: Path) -> None:
    there = install(f"tailrace[frames] @ file://{built.wheel}", tmp_path, sys.executable)
    page = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    ((name, text),) = re.findall(r"<!-- (\w+\.py) -->\n```python\n(.*?)```", page, re.DOTALL)
    (there.folder / name).write_text(text)
    queries = re.findall(r'^\$ tailrace sql "(.*?)"(?: (--.*))?$', page, re.MULTILINE)
    with Cluster(command=(str(there.bin / "tailrace"), "up"), environ=there.environ) as cluster:
        there.environ["TAILRACE_BOOTSTRAP"] = cluster.bootstrap
        there.run("tailrace", "topic", "create", "sales")
        for customer, amount in (("a", 3), ("b", 5), ("a", 7)):
            there.run("tailrace", "produce", "sales", typed=f'{{"customer":"{customer}","amount":{amount}}}\n')
        said = there.run("python", there.folder / name)
        assert said.count("customer") == 6 and "shape: (3, 2)" in said and "count_star()" in said, said
        first, second, third = (there.run("tailrace", "sql", query, *more.split()) for query, more in queries)
        assert [line.split() for line in first.splitlines()[1:]] == [["customer", "sales"], ["a", "2"], ["b", "1"]]
        assert first.startswith("sales: 3 records, all of the window") and second.endswith("[]\n")
        assert "3 records" in third and (there.folder / "sales.parquet").is_file()
        assert '"offset": 2' in there.run("tailrace", "sql", "from sales", "--last", "1", "--json")
        assert "no such topic" in there.run("tailrace", "sql", "from nope", status=1)
        assert "is not UTF-8" in _of_bytes(there)


def _of_bytes(there: Installed) -> str:
    """What a query over a value that is no text says."""
    (there.folder / "bytes").write_bytes(b"\xff")
    there.run("tailrace", "produce", "raw", there.folder / "bytes")
    assert "\\xff" in there.run("tailrace", "sql", "from raw", "--bytes")
    return there.run("tailrace", "sql", "from raw", status=1)


def console(admin: str) -> set[str]:
    """What the console and the API's page name in the package; each must be there."""
    named: set[str] = set()
    for page in ("/", "/docs"):
        with urllib.request.urlopen(f"{admin}{page}", timeout=HUNG_S) as answer:
            named |= set(re.findall(r'(?:src|href)="/?(static/[^"]+)"', answer.read().decode()))
    for name in named:
        with urllib.request.urlopen(f"{admin}/{name}", timeout=HUNG_S) as answer:
            assert answer.read(), name
    return named
