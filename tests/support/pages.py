"""The Markdown pages of the project, and what stands in them as code: commands that a reader types, and names."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from support.commands import ROOT

_GLOBS: Final = ("*.md", "docs/**/*.md", "deploy/**/*.md", "libs/tailrace/*/README.md", "services/*/README.md")
# The scripts that write these pages take all names in them from the tables that the tests compare with.
WRITTEN: Final = ("docs/configuration.md", "docs/compatibility.md")

_FENCE = re.compile(r"^( *)```([\w-]*)\n(.*?)^\1```\s*?$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^(?: {4}| {7})(tailrace\S* .*)$", re.MULTILINE)
_INLINE = re.compile(r"`([^`]+)`")
_SEPARATOR = re.compile(r"[|&;(){}!]+|do|until|while|then|if")
_ASSIGNMENT = re.compile(r"[A-Z_]+=.*")


class Command(NamedTuple):
    """One command of a page: its words, and whether the page shows it whole, as a reader types it."""

    words: tuple[str, ...]
    whole: bool


def pages() -> list[Path]:
    """Every page, those of this project alone: not what tools keep in hidden folders."""
    return sorted({page for glob in _GLOBS for page in ROOT.glob(glob)})


def name(page: Path) -> str:
    """The page's path in the project."""
    return page.relative_to(ROOT).as_posix()


@functools.cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def complaints(about: Iterable[Path], check: Callable[[str], Iterable[object]]) -> dict[str, list[object]]:
    """What a check finds in the text of each page, by the page's path; empty where all pages are as they should be."""
    found = {name(page): list(check(text_of(page))) for page in about}
    assert found
    return {page: faults for page, faults in found.items() if faults}


def inline(text: str) -> list[str]:
    """What stands between single backticks, outside of fenced blocks."""
    return [" ".join(code.split()) for code in _INLINE.findall(_FENCE.sub("", text))]


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """(language, content) of each fenced block; an indented line with a command is a block as well."""
    for indent, language, content in _FENCE.findall(text):
        yield language, re.sub(rf"^{indent}", "", content, flags=re.MULTILINE)
    for line in _INDENTED.findall(_FENCE.sub("", text)):
        yield "", line


def commands(text: str) -> Iterator[Command]:
    """Every command of a page: whole ones of blocks, and those that a sentence names."""
    for language, content in blocks(text):
        for line in _typed(language, content):
            yield from (Command(words, whole=True) for words in _simple(line))
    for code in inline(text):
        yield from (Command(words, whole=False) for words in _simple(code))


def _typed(language: str, content: str) -> Iterator[str]:
    """The lines that are typed, continued ones as one. In a console block a prompt is before each of them."""
    content = content.replace("\\\n", " ")
    if language == "console":
        typed = re.findall(r"^[$#] (.*(?:\n> .*)*)", content, re.MULTILINE)
        yield from (line.replace("\n> ", " ") for line in typed)
    elif language in ("", "bash", "sh"):
        yield from content.splitlines()


def _simple(line: str) -> Iterator[tuple[str, ...]]:
    """The simple commands of a line of shell, without redirections, assignments and what is substituted."""
    lexer = shlex.shlex(line.replace("$(", " ; ").replace(" ... ", " … "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:  # a quotation mark without its partner: no shell
        return
    words: list[str] = []
    redirected = False
    for token in [*tokens, ";"]:
        if _SEPARATOR.fullmatch(token):
            if words:
                yield tuple(words)
            words = []
        elif token in ("<", ">", ">>", "<<<"):
            redirected = True
            continue
        elif not redirected and (words or not _ASSIGNMENT.fullmatch(token)):
            words.append(token)
        redirected = False
