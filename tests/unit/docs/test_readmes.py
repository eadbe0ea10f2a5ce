"""The README of a package or a service names every module and every room: a reader sees where things are."""

from __future__ import annotations

from pathlib import Path

from support.commands import ROOT
from support.pages import name, text_of

FOLDERS = [
    path.parent for path in (*ROOT.glob("libs/tailrace/*/__init__.py"), *ROOT.glob("services/*/tailrace_*/__init__.py"))
]


def unnamed(folder: Path, readme: str) -> list[str]:
    modules = (path.stem for path in folder.glob("*.py") if not path.stem.startswith("__"))
    rooms = (f"{path.parent.name}/" for path in folder.glob("*/__init__.py"))
    return sorted(word for word in (*modules, *rooms) if word not in readme)


def readme(folder: Path) -> str:
    own = folder / "README.md"
    return text_of(own if own.exists() else folder.parent / "README.md")


def test_a_readme_names_every_module_and_every_room() -> None:
    assert {name(folder): found for folder in FOLDERS if (found := unnamed(folder, readme(folder)))} == {}


def test_a_module_and_a_room_that_a_readme_leaves_out_are_found() -> None:
    folder = ROOT / "libs" / "tailrace" / "records"
    assert unnamed(folder, "batch, record, entries, record_errors, compression and timestamps") == ["markers"]
    assert "segment/" in unnamed(ROOT / "libs" / "tailrace" / "log", "`segment`")
