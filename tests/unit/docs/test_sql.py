"""Every SQL query of a page can be asked of a new metadata database, and docs/sql.md has the columns of every view."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from support.commands import ROOT
from support.pages import commands, name, pages
from tailrace_controller.store.migrate import complete

QUERIES = [
    (name(page), word)
    for page in pages()
    for command in commands(page.read_text(encoding="utf-8"))
    for word in command.words
    if word.lower().startswith("select ")
]


@pytest.fixture
def database() -> Iterator[sa.Connection]:
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        complete(connection)
        yield connection
    engine.dispose()


@pytest.mark.parametrize(("page", "query"), QUERIES)
def test_a_query_of_a_page_can_be_asked(page: str, query: str, database: sa.Connection) -> None:
    assert database.execute(sa.text(query)).all() == [], page


def test_there_are_queries_on_the_page_of_the_views() -> None:
    assert len([query for page, query in QUERIES if page == "docs/sql.md"]) >= 3


def test_the_page_has_every_view_and_its_columns(database: sa.Connection) -> None:
    page = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
    told = {
        view: columns.split(", ") for view, columns in re.findall(r"^\| `(\w+)` \| ([^|]+?) \|$", page, re.MULTILINE)
    }
    views = database.execute(sa.text("select name from sqlite_master where type = 'view'")).scalars().all()
    found = {view: list(database.execute(sa.text(f"select * from {view}")).keys()) for view in views}
    assert told == found
