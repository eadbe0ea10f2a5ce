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
# The docstring of each of these packages and files says "Pure.", and no other one does. The simulators drive those in
# which the services decide as they are.
PURE_PACKAGES = (
    "libs/tailrace/config",
    "libs/tailrace/coordination",
    "libs/tailrace/kafka",
    "libs/tailrace/metadata",
    "libs/tailrace/quota",
    "libs/tailrace/records",
    "libs/tailrace/state",
    "libs/tailrace/wire",
    "services/controller/tailrace_controller/decide",
    "services/coordinator/tailrace_coordinator/groups",
)
PURE_FILES = (
    "libs/tailrace/clock.py",
    "libs/tailrace/errors.py",
    "libs/tailrace/log/compaction/transactions.py",
    "libs/tailrace/log/directory/disk_pressure.py",
    "libs/tailrace/log/leader_epochs.py",
    "libs/tailrace/log/producers/open_transactions.py",
    "libs/tailrace/log/producers/state.py",
    "libs/tailrace/log/producers/transactions.py",
    "libs/tailrace/log/producers/verification.py",
    "libs/tailrace/log/retention_rules.py",
    "libs/tailrace/net/address.py",
    "libs/tailrace/net/limits/answer_budget.py",
    "libs/tailrace/net/metadata/batches.py",
    "libs/tailrace/net/spread.py",
    "libs/tailrace/net/tls/ciphers.py",
    "libs/tailrace/net/tls/pem.py",
    "libs/tailrace/net/tls/record_heads.py",
    "libs/tailrace/steps.py",
    "services/broker/tailrace_broker/directories/placement.py",
    "services/broker/tailrace_broker/fetch/sessions.py",
    "services/broker/tailrace_broker/produce/refused_batches.py",
    "services/broker/tailrace_broker/replication/follower.py",
    "services/broker/tailrace_broker/replication/leader.py",
    "services/broker/tailrace_broker/replication/node.py",
    "services/broker/tailrace_broker/replication/throttle.py",
    "services/broker/tailrace_broker/transactions/add_partitions.py",
    "services/controller/tailrace_controller/election/acceptance.py",
    "services/controller/tailrace_controller/metadata_log/bootstrap.py",
    "services/controller/tailrace_controller/election_counts.py",
    "services/controller/tailrace_controller/controller_result.py",
    "services/controller/tailrace_controller/election/lease.py",
    "services/controller/tailrace_controller/sessions/liveness.py",
    "services/controller/tailrace_controller/metadata_log/log.py",
    "services/controller/tailrace_controller/metadata_log/projection.py",
    "services/controller/tailrace_controller/metadata_log/stored.py",
    "services/coordinator/tailrace_coordinator/shards/kind.py",
    "services/coordinator/tailrace_coordinator/transactions/end.py",
    "services/coordinator/tailrace_coordinator/transactions/state.py",
    "services/gateway/tailrace_gateway/cluster_state.py",
    "services/gateway/tailrace_gateway/relay/refused_batches.py",
    "services/gateway/tailrace_gateway/rest/json_objects.py",
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
EXCEPTIONS = {
    "libs/tailrace/records/batch.py": frozenset({"crc32c"}),
    "libs/tailrace/records/compression.py": frozenset({"cramjam"}),
    "libs/tailrace/wire/encode_buffer.py": frozenset({"mmap"}),  # memory, of no file
}
GENERATORS = {"libs/tailrace/wire/stubs.py", "libs/tailrace/config/generate.py"}
CLOCK_FILE = "libs/tailrace/runtime/clock.py"
PROCESSOR_FILE = "libs/tailrace/processor_time.py"  # which is no time that decides anything in a simulation
CLOCK_CALLS = {
    (module, name)
    for module, names in {
        "time": (
            "time",
            "time_ns",
            "monotonic",
            "monotonic_ns",
            "perf_counter",
            "perf_counter_ns",
            "process_time",
            "thread_time",
        ),
        "datetime": ("now", "utcnow", "today"),
    }.items()
    for name in names
}
SLEEPS = {("asyncio", "sleep"), ("time", "sleep"), ("trio", "sleep"), ("anyio", "sleep"), ("gevent", "sleep")}
RANDOM_IDS = {"uuid1", "uuid4"}
# A full /tmp stops no role: a command, the helper for tests and the Spark jobs make temporary files.
TEMPORARY = {"libs/tailrace/cli/files/exporting.py", "libs/tailrace/testing/cluster.py"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def pure_files() -> list[Path]:
    packages = [path for name in PURE_PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
    return packages + [ROOT / name for name in PURE_FILES]


def dotted(path: Path) -> str:
    """How a module is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "libs" else parts[2:]
    return ".".join(parts).removesuffix(".__init__")


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
    """What a pure file imports that is neither a value-like module nor pure itself."""
    pure = {dotted(file) for file in pure_files()}
    allowed = VALUE_MODULES | EXCEPTIONS.get(name_of(path), frozenset())
    if name_of(path).startswith("libs/tailrace/wire/"):
        allowed |= {"kafka"}
    found = []
    for name in imports(path):
        root = name.partition(".")[0]
        if root.startswith("tailrace"):
            if name not in pure and name.rpartition(".")[0] not in pure:
                found.append(name)
        elif root not in allowed:
            found.append(name)
    return found


@pytest.mark.parametrize("path", pure_files(), ids=name_of)
def test_pure_files_import_only_values_and_each_other(path: Path) -> None:
    if name_of(path) not in GENERATORS:
        assert impurities(path) == []


@pytest.mark.parametrize("path", pure_files(), ids=name_of)
def test_pure_files_make_no_random_ids(path: Path) -> None:
    assert [f"line {line}" for module, name, line in attributes(path) if module == "uuid" and name in RANDOM_IDS] == []


def test_a_docstring_says_pure_where_that_is_tested_and_nowhere_else() -> None:
    saying = {name_of(path) for path in product_files() if "Pure." in (ast.get_docstring(parsed(path)) or "")}
    assert saying == {f"{name}/__init__.py" for name in PURE_PACKAGES} | set(PURE_FILES)


def test_only_one_file_reads_a_clock() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {module}.{name}"
        for path in product_files()
        for module, name, line in attributes(path)
        if (module, name) in CLOCK_CALLS and path.relative_to(ROOT).as_posix() not in (CLOCK_FILE, PROCESSOR_FILE)
    ]
    assert found == []


def test_no_role_makes_temporary_files() -> None:
    makers = {name_of(path) for path in product_files() if "tempfile" in imports(path)}
    assert {name for name in makers if not name.startswith("spark/")} == TEMPORARY


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
