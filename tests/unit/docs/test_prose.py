"""The documentation can be read by a stranger with English as a second language, as far as that can be counted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.commands import ROOT
from support.pages import complaints, name, pages, text_of
from support.prose import first_line, sentences
from support.sources import name_of, product_files, source

OF_CODE = [page for page in pages() if name(page).startswith(("docs/adr/", "libs/", "services/"))]
PAGES = [page for page in pages() if page not in OF_CODE]
WORDS = 30


# Words that are hard to translate or say nothing: pronouns without a noun, archaisms, pictures, moods of a machine.
HARD = re.compile(
    r"\b(?:anew|hence|thereof|vouch\w*|knock\w*|filth\w*|dribbl\w*|calm\w*|restless"
    r"|morning|for ever|by leave of|draws? (?:no )?lots)\b",
    re.IGNORECASE,
)
WHO = re.compile(r"\b(?:who|whom|whoever)\b", re.IGNORECASE)
# Words that age: a page says what is, and the changelog says what is new. What "stands still" does not move.
AGEING = re.compile(
    r"\b(?:today|nowadays|now|currently|recently|lately|at the moment|at present|for the time being"
    r"|not yet(?=:)|does not do yet|(?:is|are|has|have) no [\w ]+ yet|not honoured yet"
    r"|(?<!stand )(?<!stands )(?<!stood )still)\b",
    re.IGNORECASE,
)


# People as the subject of a sentence about software: "who waits" is "a waiting fetch".
PERSON = re.compile(
    r"\b(?:who|whom|whoever|nobody|somebody|everybody|anybody|someone|everyone|anyone|no one)\b", re.IGNORECASE
)
AGEING_IN_CODE = re.compile(
    r"\b(?:today|nowadays|currently|lately|at the moment|at present|for the time being)\b", re.I
)
# How many of them docstrings, comments and log messages of the product have at most. These numbers only fall.
IN_CODE = ((PERSON, 600), (HARD, 20), (AGEING_IN_CODE, 0))


def test_sentences_are_found_and_code_tables_and_targets_are_not() -> None:
    page = "# A title\n\nOne [two](3.md) `a b c`. Four\nfive!\n\n| no | no |\n\n```\nno. No.\n```\n- six\n- Seven (8)."
    assert list(sentences(page)) == ["One two `…`.", "Four five!", "six", "Seven (8)."]


def test_the_first_line_says_for_whom_the_page_is() -> None:
    others = {name(page) for page in PAGES if not first_line(text_of(page)).startswith("For ")}
    assert others == {"README.md"}


def test_sentences_are_short() -> None:
    assert complaints(PAGES, lambda text: [line for line in sentences(text) if len(line.split()) > WORDS]) == {}


def lines(text: str, marks: str) -> list[str]:
    """The lines that begin with one of these marks, without what is in `code`."""
    return [re.sub(r"`[^`]*`", "…", line) for line in text.splitlines() if line.startswith(tuple(marks))]


def hard(text: str) -> list[tuple[str, str]]:
    found = [*sentences(text), *lines(text, "|")]
    return [(m[0], line) for line in found for words in (WHO, HARD) for m in words.finditer(line)]


def test_no_sentence_and_no_table_has_a_word_that_is_hard_to_translate() -> None:
    assert complaints(pages(), hard) == {}


def ageing(text: str) -> list[tuple[str, str]]:
    return [(m[0], line) for line in [*sentences(text), *lines(text, "|#")] for m in AGEING.finditer(line)]


def test_no_sentence_no_heading_and_no_table_has_a_word_that_ages() -> None:
    assert complaints(pages(), ageing) == {}


def missing_files(text: str) -> list[str]:
    named = re.findall(r"`((?:tests|libs|services|spark)/[\w/.-]+)`", text)
    return [path for path in named if not (ROOT / path).exists()]


def test_files_of_the_project_that_a_page_names_exist() -> None:
    assert complaints(PAGES, missing_files) == {}


def in_code(words: re.Pattern[str]) -> list[tuple[str, str]]:
    """Where docstrings, comments and log messages of the product have such a word."""
    return [
        (name_of(path), " ".join(text[max(0, m.start() - 40) : m.end() + 40].split()))
        for path in product_files()
        for text in source(path).prose
        for m in words.finditer(text)
    ]


@pytest.mark.parametrize(("words", "most"), IN_CODE, ids=["person", "hard", "ageing"])
def test_code_is_written_as_the_pages_are(words: re.Pattern[str], most: int) -> None:
    found = in_code(words)
    assert len(found) <= most, found


def test_prose_of_code_is_found(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text('"""A."""\n# B.\nclass C:\n    """D."""\n    x = 1  # E.\nlog.info("F", g="H")\ny = "I"\n')
    assert sorted(filter(None, source(path).prose)) == ["A.", "B.", "D.", "E.", "F"]
