"""What the layout promises: pure packages stay pure, one file reads the clock, nothing waits by sleeping.

import-linter (pyproject.toml) holds the directions between packages; this test holds what it cannot see.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "libs" / "tailrace"
PURE_PACKAGES = ("kafka", "wire", "records", "coordination", "config", "metadata", "quota", "state")
PURE_FILES = (
    "errors.py",
    "clock.py",
    "log/producers/state.py",
    "log/producers/open_transactions.py",
    "log/producers/transactions.py",
    "log/leader_epochs.py",
    "log/retention_rules.py",
)
# Where the services decide: the simulators drive these files as they are.
SERVICES = ROOT / "services"
DECIDING = (
    "controller/tailrace_controller/decide/*.py",
    "controller/tailrace_controller/effects.py",
    "controller/tailrace_controller/sessions/liveness.py",
    "controller/tailrace_controller/metadata_log/projection.py",
    "broker/tailrace_broker/replication/leader.py",
    "broker/tailrace_broker/replication/follower.py",
    "broker/tailrace_broker/replication/node.py",
    "broker/tailrace_broker/replication/throttle.py",
    "broker/tailrace_broker/fetch/sessions.py",
    "coordinator/tailrace_coordinator/groups/**/*.py",
    "coordinator/tailrace_coordinator/shards/kind.py",
    "coordinator/tailrace_coordinator/shards/transactional_records.py",
)
# Value-like: no I/O, no clock, no randomness, no event loop.
VALUE_MODULES = frozenset(
    re.findall(
        r"\w+",
        """__future__ abc array base64 binascii bisect collections contextlib copy dataclasses decimal difflib enum
        fnmatch functools hashlib heapq io ipaddress itertools json keyword math numbers operator re string struct
        textwrap types typing uuid weakref zlib""",
    )
)
# The exceptions of architecture.md, each in one file; generators that a person runs are programs, not library.
EXCEPTIONS: dict[str, frozenset[str]] = {
    "records/batch.py": frozenset({"crc32c"}),
    "records/compression.py": frozenset({"cramjam"}),
}
GENERATORS = {"wire/stubs.py", "config/generate.py"}
PURE_PEERS = {"errors", "clock", *PURE_PACKAGES}
CLOCK_FILE = "libs/tailrace/runtime/clock.py"
CLOCK_CALLS = {
    (module, name)
    for module, names in {
        "time": ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"),
        "datetime": ("now", "utcnow", "today"),
    }.items()
    for name in names
}
SLEEPS = {("asyncio", "sleep"), ("time", "sleep"), ("trio", "sleep"), ("anyio", "sleep"), ("gevent", "sleep")}
RANDOM_IDS = {"uuid1", "uuid4"}


def pure_files() -> list[Path]:
    packages = [path for name in PURE_PACKAGES for path in sorted((LIBRARY / name).rglob("*.py"))]
    return packages + [LIBRARY / name for name in PURE_FILES if (LIBRARY / name).exists()]


def product_files() -> list[Path]:
    return sorted(path for root in ("libs", "services", "spark") for path in (ROOT / root).rglob("*.py"))


def python_files() -> list[Path]:
    return product_files() + sorted((ROOT / "tests").rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path) -> Iterator[str]:
    """Dotted names of what a file imports at run time; `if TYPE_CHECKING` blocks do not run."""
    for node in running_nodes(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def running_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from running_nodes(node)


def attributes(path: Path) -> Iterator[tuple[str, str, int]]:
    """`module.name` as used or imported from, with its line."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name, node.lineno) for alias in node.names)


def yields(path: Path) -> set[int]:
    """Lines with `asyncio.sleep(0)`, which gives the loop one turn and waits for nothing."""
    return {
        node.lineno
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and ast.unparse(node) == "asyncio.sleep(0)"
    }


def impurities(path: Path) -> list[str]:
    name = path.relative_to(LIBRARY).as_posix()
    allowed = VALUE_MODULES | EXCEPTIONS.get(name, frozenset())
    if name.startswith("wire/"):
        allowed |= {"kafka"}
    found = []
    for imported in imports(path):
        parts = imported.split(".")
        if parts[0] == "tailrace":
            module = "/".join(parts[1:]) + ".py"
            if len(parts) > 1 and parts[1] not in PURE_PEERS and not any(module.startswith(f[:-3]) for f in PURE_FILES):
                found.append(imported)
        elif parts[0] not in allowed:
            found.append(imported)
    return found


@pytest.mark.parametrize("path", pure_files(), ids=lambda path: path.relative_to(LIBRARY).as_posix())
def test_pure_files_import_only_values_and_each_other(path: Path) -> None:
    if path.relative_to(LIBRARY).as_posix() not in GENERATORS:
        assert impurities(path) == []


@pytest.mark.parametrize("path", pure_files(), ids=lambda path: path.relative_to(LIBRARY).as_posix())
def test_pure_files_make_no_random_ids(path: Path) -> None:
    assert [f"line {line}" for module, name, line in attributes(path) if module == "uuid" and name in RANDOM_IDS] == []


def deciding_files() -> list[Path]:
    return sorted({path for pattern in DECIDING for path in SERVICES.glob(pattern)})


@pytest.mark.parametrize("path", deciding_files(), ids=lambda path: path.relative_to(SERVICES).as_posix())
def test_what_decides_imports_only_values_and_what_decides(path: Path) -> None:
    modules = {".".join(file.relative_to(SERVICES).with_suffix("").parts[1:]) for file in deciding_files()}
    found = []
    for imported in imports(path):
        parts = imported.split(".")
        if parts[0] == "tailrace":
            pure = parts[1] in PURE_PEERS or any(f"{'/'.join(parts[1:])}.py".startswith(f[:-3]) for f in PURE_FILES)
        elif parts[0].startswith("tailrace_"):
            pure = imported in modules or imported.rpartition(".")[0] in modules or imported + ".__init__" in modules
            pure = pure or f"{imported.rpartition('.')[0]}.__init__" in modules
        else:
            pure = parts[0] in VALUE_MODULES
        if not pure:
            found.append(imported)
    assert found == []


def test_only_one_file_reads_a_clock() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {module}.{name}"
        for path in product_files()
        for module, name, line in attributes(path)
        if (module, name) in CLOCK_CALLS and path.relative_to(ROOT).as_posix() != CLOCK_FILE
    ]
    assert found == []


def test_nothing_waits_by_sleeping() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {module}.{name}"
        for path in python_files()
        for module, name, line in attributes(path)
        if (module, name) in SLEEPS
        and path.relative_to(ROOT).as_posix() != CLOCK_FILE
        and (path.is_relative_to(ROOT / "tests") and line in yields(path)) is False
    ]
    assert found == []


def test_the_check_sees_what_it_forbids(tmp_path: Path) -> None:
    source = "import asyncio\nfrom time import sleep\nasync def wait():\n    await asyncio.sleep(1)\n"
    path = tmp_path / "bad.py"
    path.write_text(source)
    assert {(module, name) for module, name, _ in attributes(path)} >= {("asyncio", "sleep"), ("time", "sleep")}
    assert set(imports(path)) == {"asyncio", "time.sleep"}
