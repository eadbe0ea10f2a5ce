"""What the layout promises: pure packages stay pure, one file reads the clock, nothing waits by sleeping.

import-linter (pyproject.toml) holds the directions between packages; this test holds what it cannot see.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

from support.commands import ROOT
from support.sources import files_of_tests, name_of, product_files, source, text_of

# The docstring of each of these packages and files says "Pure.", and no other one does. The simulators drive those in
# which the services decide as they are.
PURE_PACKAGES = (
    "libs/tailrace/access",
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
    "libs/tailrace/log/segment/transactions.py",
    "libs/tailrace/log/producers/verification.py",
    "libs/tailrace/log/retention_rules.py",
    "libs/tailrace/net/address.py",
    "libs/tailrace/net/limits/answer_budget.py",
    "libs/tailrace/net/metadata/batches.py",
    "libs/tailrace/net/node_names.py",
    "libs/tailrace/net/tls/ciphers.py",
    "libs/tailrace/net/tls/pem.py",
    "libs/tailrace/net/tls/record_heads.py",
    "libs/tailrace/printable.py",
    "libs/tailrace/reading/assignment.py",
    "libs/tailrace/reading/cursor.py",
    "libs/tailrace/reading/decoders/plain.py",
    "libs/tailrace/reading/filter_words.py",
    "libs/tailrace/reading/json_lines.py",
    "libs/tailrace/reading/positions.py",
    "libs/tailrace/reading/record_format.py",
    "libs/tailrace/steps.py",
    "libs/tailrace/tables/batch.py",
    "libs/tailrace/tables/columns.py",
    "libs/tailrace/tables/fields/field.py",
    "libs/tailrace/tables/fields/json_fields.py",
    "services/broker/tailrace_broker/directories/placement.py",
    "services/broker/tailrace_broker/fetch/sessions.py",
    "services/broker/tailrace_broker/partitions/early_batches.py",
    "services/broker/tailrace_broker/produce/refused_batches.py",
    "services/gateway/tailrace_gateway/rest/console/rows.py",
    "services/broker/tailrace_broker/partitions/follower.py",
    "services/broker/tailrace_broker/partitions/leader.py",
    "services/broker/tailrace_broker/partitions/node.py",
    "services/broker/tailrace_broker/partitions/throttle.py",
    "services/broker/tailrace_broker/transactions/add_partitions.py",
    "services/controller/tailrace_controller/election/acceptance.py",
    "services/controller/tailrace_controller/metadata_log/bootstrap.py",
    "services/controller/tailrace_controller/decide/election_counts.py",
    "services/controller/tailrace_controller/decide/controller_result.py",
    "services/controller/tailrace_controller/election/lease.py",
    "services/controller/tailrace_controller/sessions/liveness.py",
    "services/controller/tailrace_controller/metadata_log/log.py",
    "services/controller/tailrace_controller/metadata_log/projection.py",
    "services/controller/tailrace_controller/metadata_log/lease_row.py",
    "services/controller/tailrace_controller/metadata_log/stored.py",
    "services/coordinator/tailrace_coordinator/shards/kind.py",
    "services/coordinator/tailrace_coordinator/transactions/end.py",
    "services/coordinator/tailrace_coordinator/transactions/state.py",
    "services/gateway/tailrace_gateway/cluster_state.py",
    "services/gateway/tailrace_gateway/relay/refused_batches.py",
    "services/gateway/tailrace_gateway/rest/records/json_objects.py",
)
# Value-like: no I/O, no clock, no randomness, no event loop.
VALUE_MODULES = frozenset(
    re.findall(
        r"\w+",
        """__future__ abc array base64 binascii bisect collections contextlib copy dataclasses decimal difflib enum
        fnmatch functools hashlib heapq hmac io ipaddress itertools json keyword math numbers operator re string struct
        textwrap types typing uuid weakref zlib""",
    )
)
# The exceptions of architecture.md, each in one file; generators that a person runs are programs, not library.
EXCEPTIONS = {
    "libs/tailrace/records/batch.py": frozenset({"crc32c"}),
    "libs/tailrace/records/compression.py": frozenset({"cramjam"}),
    "libs/tailrace/tables/columns.py": frozenset({"datetime"}),  # as a type; CLOCK_CALLS keeps its clock out
    "libs/tailrace/tables/fields/field.py": frozenset({"datetime"}),
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
MOST_ANY = 600
# A full /tmp stops no role: a command, the helper for tests and the Spark jobs make temporary files.
TEMPORARY = {"libs/tailrace/cli/files/exporting.py", "libs/tailrace/testing/cluster.py"}


def typed_files() -> list[Path]:
    """The library and the services; jobs of Spark have untyped rows."""
    return [path for path in product_files() if not path.is_relative_to(ROOT / "spark")]


@functools.cache
def pure_files() -> tuple[Path, ...]:
    packages = (path for name in PURE_PACKAGES for path in sorted((ROOT / name).rglob("*.py")))
    return (*packages, *(ROOT / name for name in PURE_FILES))


@functools.cache
def pure_modules() -> frozenset[str]:
    return frozenset(map(dotted, pure_files()))


def dotted(path: Path) -> str:
    """How a module is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "libs" else parts[2:]
    return ".".join(parts).removesuffix(".__init__")


def impurities(path: Path) -> list[str]:
    """What a pure file uses that is neither a value-like module nor pure itself; a random id is no value."""
    allowed = VALUE_MODULES | EXCEPTIONS.get(name_of(path), frozenset())
    if name_of(path).startswith("libs/tailrace/wire/"):
        allowed |= {"kafka"}
    found = [f"uuid.{name}" for module, name, _ in source(path).attributes if module == "uuid" and name in RANDOM_IDS]
    for name in source(path).ran:
        root = name.partition(".")[0]
        if root.startswith("tailrace"):
            if name not in pure_modules() and name.rpartition(".")[0] not in pure_modules():
                found.append(name)
        elif root not in allowed:
            found.append(name)
    return found


def sleeps(path: Path) -> list[str]:
    """Where a file waits by sleeping. A test may `await asyncio.sleep(0)`: one turn of the loop, and no time."""
    if "sleep" not in text_of(path):
        return []
    found = [(f"{module}.{name}", line) for module, name, line in source(path).attributes if (module, name) in SLEEPS]
    lines = text_of(path).splitlines()
    turn = "asyncio.sleep(0)" if path.is_relative_to(ROOT / "tests") else None
    return [f"{path}:{line} {name}" for name, line in found if turn is None or turn not in lines[line - 1]]


def test_pure_files_import_only_values_and_each_other_and_make_no_random_ids() -> None:
    files = [path for path in pure_files() if name_of(path) not in GENERATORS]
    assert len(files) > 100
    assert {name_of(path): found for path in files if (found := impurities(path))} == {}


def test_a_docstring_says_pure_where_that_is_tested_and_nowhere_else() -> None:
    saying = {name_of(path) for path in product_files() if "Pure." in source(path).docstring}
    assert saying == {f"{name}/__init__.py" for name in PURE_PACKAGES} | set(PURE_FILES)


def test_handlers_name_the_messages_that_they_take_and_give() -> None:
    """The table of a role is Callable[[Any, ...]]: the type checker follows a request from here on."""
    untyped = []
    for path in sorted(ROOT.glob("services/*/tailrace_*/handlers/*.py")):
        for node in ast.walk(ast.parse(text_of(path))):
            if isinstance(node, ast.AsyncFunctionDef) and node.name == "handle":
                request, answer = node.args.args[0].annotation, node.returns
                untyped += [name_of(path) for one in (request, answer) if one is None or ast.unparse(one) == "Any"]
    assert untyped == []


def test_any_only_falls() -> None:
    """Lower it with each change that has fewer."""
    found = sum(len(re.findall(r"\bAny\b", text_of(path))) for path in typed_files())
    assert found <= MOST_ANY, "name the type: the stubs of tailrace.wire.messages have every message"


def test_only_one_file_reads_a_clock() -> None:
    found = [
        f"{name_of(path)}:{line} {module}.{name}"
        for path in product_files()
        for module, name, line in source(path).attributes
        if (module, name) in CLOCK_CALLS and name_of(path) not in (CLOCK_FILE, PROCESSOR_FILE)
    ]
    assert found == []


def test_no_role_makes_temporary_files() -> None:
    makers = {name_of(path) for path in product_files() if "tempfile" in source(path).ran}
    assert {name for name in makers if not name.startswith("spark/")} == TEMPORARY


def test_nothing_waits_by_sleeping() -> None:
    files = [path for path in (*product_files(), *files_of_tests()) if name_of(path) != CLOCK_FILE]
    assert [line for path in files for line in sleeps(path)] == []


def test_the_check_sees_what_it_forbids(tmp_path: Path) -> None:
    text = "import asyncio\nfrom time import sleep\nasync def wait():\n    await asyncio.sleep(1)\n"
    path = tmp_path / "bad.py"
    path.write_text(text)
    assert sorted(sleeps(path)) == [f"{path}:2 time.sleep", f"{path}:4 asyncio.sleep"]
    assert set(source(path).ran) == {"asyncio", "time.sleep"}


def test_what_only_a_type_checker_imports_does_not_run(tmp_path: Path) -> None:
    path = tmp_path / "typed.py"
    path.write_text("import re\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import socket\n")
    assert (set(source(path).imports) - set(source(path).ran)) == {"socket"}
