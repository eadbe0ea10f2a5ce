"""The README of a package or a service names every module and every room: a reader sees where things are."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import ROOT
from support.pages import name

FOLDERS = [
    path.parent for path in (*ROOT.glob("libs/tailrace/*/__init__.py"), *ROOT.glob("services/*/tailrace_*/__init__.py"))
]


def unnamed(folder: Path, readme: str) -> list[str]:
    modules = (path.stem for path in folder.glob("*.py") if not path.stem.startswith("__"))
    rooms = (f"{path.parent.name}/" for path in folder.glob("*/__init__.py"))
    return sorted(word for word in (*modules, *rooms) if word not in readme)


@pytest.mark.parametrize("folder", sorted(FOLDERS), ids=name)
def test_a_readme_names_every_module_and_every_room(folder: Path) -> None:
    readme = folder / "README.md"
    text = (readme if readme.exists() else folder.parent / "README.md").read_text(encoding="utf-8")
    assert not unnamed(folder, text)


def test_a_module_and_a_room_that_a_readme_leaves_out_are_found() -> None:
    folder = ROOT / "libs" / "tailrace" / "records"
    assert unnamed(folder, "batch, record, entries, blame and compression") == ["markers"]
    assert "segment/" in unnamed(ROOT / "libs" / "tailrace" / "log", "`segment`")
