"""What the documentation points at is there."""

import functools
import re
from pathlib import Path

from support.commands import ROOT
from support.pages import name, pages, text_of

LINK = re.compile(r"\[[^\]]+\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


@functools.cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_somewhere(page: Path, path: str, anchor: str) -> bool:
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def test_links_lead_somewhere() -> None:
    links = [(page, *link) for page in pages() for link in LINK.findall(text_of(page))]
    assert [
        f"{name(page)}: {path}#{anchor}" for page, path, anchor in links if not leads_somewhere(page, path, anchor)
    ] == []


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    missing = [file.name for file in folder.glob("[0-9]*.md") if f"({file.name})" not in index]
    assert not missing
