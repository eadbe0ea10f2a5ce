"""The source files of the product and what the checks of its layout ask of them: each file is read and walked once."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.commands import ROOT

_LOGS = {"debug", "info", "warning", "error", "exception", "critical"}
_COMMENT = re.compile(r"(?:^|  )\s*#:? (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed file; `ran` is what it imports at run time, because `if TYPE_CHECKING` blocks do not run."""

    docstring: str
    types: tuple[str, ...]
    imports: tuple[str, ...]
    ran: tuple[str, ...]
    attributes: tuple[tuple[str, str, int], ...]  # `module.name` as used or imported from, with its line
    prose: tuple[str, ...]  # docstrings, log messages and comments


@functools.cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def source(path: Path) -> Source:
    """The file, walked once."""
    tree = ast.parse(text_of(path))
    imports: list[str] = []
    ran: list[str] = []
    attributes: list[tuple[str, str, int]] = []
    prose = _COMMENT.findall(text_of(path))
    for node, runs in _nodes(tree):
        prose += _texts(node)
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name):
                attributes.append((node.value.id, node.attr, node.lineno))
            continue
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found = [f"{node.module}.{alias.name}" for alias in node.names]
            attributes.extend((str(node.module), alias.name, node.lineno) for alias in node.names)
        else:
            continue
        imports += found
        ran += found if runs else []
    types = (node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return Source(
        ast.get_docstring(tree) or "", tuple(types), tuple(imports), tuple(ran), tuple(attributes), tuple(prose)
    )


def _texts(node: ast.AST) -> Iterator[str]:
    """The docstring of a definition, the message of a line of the log."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield ast.get_docstring(node, clean=False) or ""
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOGS and node.args:
        message = node.args[0]
        yield str(message.value) if isinstance(message, ast.Constant) else ""


def _nodes(tree: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, and whether it is outside of an `if TYPE_CHECKING` block."""
    waiting = [(tree, True)]
    while waiting:
        node, runs = waiting.pop()
        yield node, runs
        runs = runs and not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        waiting.extend((child, runs) for child in ast.iter_child_nodes(node))


@functools.cache
def product_files() -> tuple[Path, ...]:
    return tuple(sorted(path for root in ("libs", "services", "spark") for path in (ROOT / root).rglob("*.py")))


@functools.cache
def files_of_tests() -> tuple[Path, ...]:
    return tuple(sorted((ROOT / "tests").rglob("*.py")))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
