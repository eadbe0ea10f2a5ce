"""Where things lie: no circle of imports inside a package, also none for types alone; lists that only shrink."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROLES = ("broker", "controller", "coordinator", "gateway", "quota")
PACKAGES = (
    ROOT / "libs" / "tailrace",
    *(ROOT / "services" / role / f"tailrace_{role}" for role in ROLES),
    ROOT / "spark" / "tailrace_spark",
)
# Packages that still have circles; the list may only become shorter.
CIRCLES_LEFT = {"tailrace_gateway"}
EXCUSE = "noqa: " + "SLF001"
MOST_EXCUSED = 77  # may only become fewer


@functools.cache
def modules(package: Path) -> Mapping[str, Path]:
    """The modules of a package by their dotted names."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """Which of the known modules a file imports: at its top, inside functions, and for types alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                name = name if name in known else str(node.module)
                if name in known:
                    yield name


def circles(known: Mapping[str, Path]) -> list[list[str]]:
    """The groups of modules that import one another (Tarjan's strongly connected components)."""
    imports = {name: sorted({*imported(path, known)} - {name}) for name, path in known.items()}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in imports[name]:
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            group = [stack.pop()]
            while group[-1] != name:
                group.append(stack.pop())
            found.append(sorted(group))

    for name in imports:
        if name not in index:
            visit(name)
    return [group for group in found if len(group) > 1]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_modules_import_one_another(package: Path) -> None:
    if package.name in CIRCLES_LEFT:
        assert circles(modules(package)), f"{package.name} has no circles any more: take it out of CIRCLES_LEFT"
    else:
        assert circles(modules(package)) == []


def test_a_circle_for_types_alone_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.b import B\n")
    (package / "b.py").write_text("def f():\n    from p import c\n")
    (package / "c.py").write_text("import p.a\n")
    assert circles(modules(package)) == [["p.a", "p.b", "p.c"]]


def test_no_further_test_looks_at_what_is_private() -> None:
    """Where one still does, a line says so to ruff, which in turn wants the word gone with its reason."""
    excused = [
        line for path in (ROOT / "tests").rglob("*.py") for line in path.read_text().splitlines() if EXCUSE in line
    ]
    assert len(excused) <= MOST_EXCUSED
