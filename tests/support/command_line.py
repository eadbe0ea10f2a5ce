"""What the programs of the project take: whether a command that a page shows could be typed."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from support.commands import ROOT
from support.layers.table import LAYERS
from support.pages import Command
from tailrace.cli import options
from tailrace.cli.command import ABOUT
from tailrace.cli.daily import app
from tailrace.cli.demo import command as demo
from tailrace.cli.plan import ROLES
from tailrace.cli.roles import find_role
from tailrace.runtime import health, process
from tailrace_spark.jobs import JOBS

_LEFT_OUT: Final = re.compile(r"…|^[A-Z]+$|\|")  # of a command that a sentence names: `broker may-stop ID`, `list|set`
_SOURCES: Final = ("tests", "libs", "services/*", "spark")  # where `python -m` finds modules


def fault(command: Command) -> str | None:
    """Why a reader could not type this; None if it could be typed, or is another project's program."""
    program, *words = command.words
    if program in ("python", "python3") or program.endswith("/python"):
        return _module(words[1:]) if words[:1] == ["-m"] else None
    if program == "tailrace":
        return _tailrace(words, whole=command.whole)
    if program == "tailrace-spark":
        return _spark(words)
    if program == "./test":
        return _test(words)
    return None if not program.startswith("./") or (ROOT / program).exists() else f"no {program}"


def _tailrace(words: list[str], *, whole: bool) -> str | None:
    """`tailrace` and these words. What is not whole need only name commands and options that exist."""
    if words[:1] == ["--command-config"]:
        words = words[2:]
    if not words or words[0] in ("--help", "--version") or words[0].isupper() or "…" in words[0]:
        return None
    first, *rest = words
    if first in _HELPS and not (first in ABOUT and rest and not rest[0].startswith("-")):
        return _argparse(first, rest, whole=whole)
    command, path = typer.main.get_command(app), ["tailrace"]
    while isinstance(command, TyperGroup):
        found = _inner(command, words[0]) if words else None
        if found is None:
            return f"no command {' '.join([*path, *words[:1]])}" if words and not _LEFT_OUT.search(words[0]) else None
        path.append(words.pop(0))
        command = found
    return _typer(command, path, words, whole=whole and not any("…" in word for word in words))


def _inner(group: TyperGroup, name: str) -> Any:
    with group.make_context("tailrace", [], resilient_parsing=True) as context:
        return group.get_command(context, name)


def _typer(command: Any, path: Sequence[str], words: list[str], *, whole: bool) -> str | None:
    if whole:
        try:
            command.make_context(path[-1], words, help_option_names=["--help"])
        except TyperException as error:
            return f"{' '.join(path)}: {error}"
        return None
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    return _unknown(path, words, known)


def _unknown(path: Sequence[str], words: Sequence[str], known: set[str]) -> str | None:
    given = [word.partition("=")[0] for word in words if re.match(r"-[a-z]$|--[a-z]", word)]
    return next((f"{' '.join(path)} has no {option}" for option in given if option not in known), None)


def _argparse(name: str, words: list[str], *, whole: bool) -> str | None:
    """`up`, `demo`, `health` and the roles: their help says which options they have."""
    command = (name, *words[:1]) if words and not words[0].startswith("-") else (name,)
    if unknown := _unknown(("tailrace", *command), words, _options(*command)):
        return unknown
    if name == "up" and whole and not any("…" in word for word in words):
        try:
            with contextlib.redirect_stderr(io.StringIO()) as said:
                options.parse(words, {})
        except SystemExit as end:
            return said.getvalue() if end.code else None
    return None


@functools.cache
def _options(name: str, inner: str = "") -> set[str]:
    """The options that the help of a command names, also of one that a role has; `demo` hands on those of `up`."""
    umask = os.umask(0o077)
    try:
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
            _HELPS[name]([inner, "--help"] if inner else ["--help"])
    finally:
        os.umask(umask)  # a role makes it private
    found = set(re.findall(r"(?<![\w-])-{1,2}[a-z][a-z-]*", said.getvalue())) | {"--help"}
    return found | _options("up") if name == "demo" else found


def _role_help(role: str) -> Callable[[list[str]], object]:
    return lambda words: process.main(find_role(role)(), words)


_HELPS: Final[dict[str, Callable[[list[str]], object]]] = {
    "up": lambda words: options.parse(words, {}),
    "demo": lambda words: demo.main(words, {}),
    "health": lambda words: health.main(words, lambda _: Path()),
    **{role: _role_help(role) for role in ROLES},
}


def _spark(words: list[str]) -> str | None:
    """`tailrace-spark` and these words; PySpark is not there, so an option is one that a job's source names."""
    if not words or words[0].isupper() or words[0] == "completion":
        return None
    job = next((name for length in (2, 1) if (name := " ".join(words[:length])) in JOBS), None)
    if job is None:
        return f"no job {words[0]}"
    return _unknown(("tailrace-spark", job), words, _named_in("spark") | {"--help"})


def _test(words: list[str]) -> str | None:
    """`./test` and these words: layers come first, and -k has the name of a test or a part of it."""
    for word in words:
        if word.startswith(("-", "tests/")):
            break
        if word not in LAYERS and not _LEFT_OUT.search(word):
            return f"no layer {word}"
    chosen = next((words[at + 1] for at, word in enumerate(words[:-1]) if word == "-k"), "")
    return None if chosen in _tests() else f"no test has {chosen} in its name"


@functools.cache
def _tests() -> str:
    """The names of all tests, functions and files."""
    files = list((ROOT / "tests").rglob("test_*.py"))
    functions = (re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8")) for path in files)
    return "\n".join([*(path.stem for path in files), *(name for names in functions for name in names)])


def _module(words: list[str]) -> str | None:
    """`python -m` and these words."""
    if not words or "…" in words[0]:
        return None
    parts = words[0].split(".")
    found = [path for path in _places(parts) if path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()]
    if found and parts[0] in ("bench", "sim"):
        return _unknown(("python -m", words[0]), words, _named_in(f"tests/{parts[0]}") | {"--help"})
    ours = parts[0] in ("bench", "sim", "support") or parts[0].startswith("tailrace")
    return f"no module {words[0]}" if ours and not found else None


def _places(parts: Sequence[str]) -> Iterator[Path]:
    for source in _SOURCES:
        yield from (root.joinpath(*parts) for root in ROOT.glob(source))


@functools.cache
def _named_in(folder: str) -> set[str]:
    """The options that the sources of a folder name."""
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py"))
    return {option for text in texts for option in re.findall(r"\"(--?[a-z][a-z-]*)\"", text)}
