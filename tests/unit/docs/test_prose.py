"""The documentation can be read by a stranger with English as a second language, as far as that can be counted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.commands import ROOT
from support.pages import name, pages
from support.prose import first_line, sentences

OF_CODE = [page for page in pages() if name(page).startswith(("docs/adr/", "libs/", "services/"))]
PAGES = [page for page in pages() if page not in OF_CODE]
WORDS = 30


# Words that are hard to translate or say nothing: pronouns without a noun, archaisms, pictures, moods of a machine.
HARD = re.compile(
    r"\b(?:who|whom|whoever|anew|hence|thereof|vouch\w*|knock\w*|filth\w*|dribbl\w*|calm\w*|restless"
    r"|morning|for ever|by leave of|draws? (?:no )?lots)\b",
    re.IGNORECASE,
)
# Words that age: a page says what is, and the changelog says what is new. What "stands still" does not move.
AGEING = re.compile(
    r"\b(?:today|nowadays|now|currently|recently|lately|at the moment|at present|for the time being"
    r"|not yet(?=:)|does not do yet|(?:is|are|has|have) no [\w ]+ yet|not honoured yet"
    r"|(?<!stand )(?<!stands )(?<!stood )still)\b",
    re.IGNORECASE,
)


def test_sentences_are_found_and_code_tables_and_targets_are_not() -> None:
    page = "# A title\n\nOne [two](3.md) `a b c`. Four\nfive!\n\n| no | no |\n\n```\nno. No.\n```\n- six\n- Seven (8)."
    assert list(sentences(page)) == ["One two `…`.", "Four five!", "six", "Seven (8)."]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_first_line_says_for_whom_the_page_is(page: Path) -> None:
    assert page == ROOT / "README.md" or first_line(page.read_text(encoding="utf-8")).startswith("For ")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_sentences_are_short(page: Path) -> None:
    assert not [text for text in sentences(page.read_text(encoding="utf-8")) if len(text.split()) > WORDS]


def lines(text: str, marks: str) -> list[str]:
    """The lines that begin with one of these marks, without what is in `code`."""
    return [re.sub(r"`[^`]*`", "…", line) for line in text.splitlines() if line.startswith(tuple(marks))]


@pytest.mark.parametrize("page", pages(), ids=name)
def test_no_sentence_and_no_table_has_a_word_that_is_hard_to_translate(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not [(m[0], line) for line in [*sentences(text), *lines(text, "|")] for m in HARD.finditer(line)]


@pytest.mark.parametrize("page", pages(), ids=name)
def test_no_sentence_no_heading_and_no_table_has_a_word_that_ages(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not [(m[0], line) for line in [*sentences(text), *lines(text, "|#")] for m in AGEING.finditer(line)]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_of_the_project_that_a_page_names_exist(page: Path) -> None:
    named = re.findall(r"`((?:tests|libs|services|spark)/[\w/.-]+)`", page.read_text(encoding="utf-8"))
    assert not [path for path in named if not (ROOT / path).exists()]
