"""docs/glossary.md explains words that are in the code, each once, in the order of the alphabet, on half a page."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ROW = re.compile(r"^\| ([a-z][a-z -]*) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


def _rows() -> list[tuple[str, str]]:
    return ROW.findall((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))


def test_each_word_is_there_once_in_the_order_of_the_alphabet() -> None:
    words = [word for word, _ in _rows()]
    assert words[1:] == sorted(set(words[1:]))
    assert 10 <= len(words) <= 30


def test_each_name_of_the_code_is_in_the_code() -> None:
    roots = [ROOT / "libs", ROOT / "services", ROOT / "tests" / "sim", ROOT / "tests" / "unit" / "test_architecture.py"]
    files = [file for root in roots for file in (root.rglob("*.py") if root.is_dir() else [root])]
    code = "\n".join(file.read_text(encoding="utf-8") for file in files)
    names = [name for _, cell in _rows()[1:] for name in re.findall(r"`([^`]+)`", cell)]
    assert len(names) >= len(_rows()) - 1
    assert not [name for name in names if not re.search(rf"(?<![A-Za-z]){re.escape(name)}", code)]
