"""Pages for every reader: by keyboard, narrow, in both themes, with axe; with hostile names and very many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from support.browser import NARROW, WIDE, Window, accessibility
from support.rest_backend import MemoryBackend, MemoryGroup
from tailrace.metadata.image import PartitionImage, TopicImage

PLACES = (
    "overview",
    "topics",
    "topics/orders",
    "topics/orders?tab=configs",
    "groups",
    "groups/billing",
    "messages",
    "messages/orders",
)
HOSTILE = "<img src=x onerror=alert(1)>'\"&${7*7}\u202e"
DRAWN_MAX = 80


@pytest.mark.parametrize(("viewport", "scheme"), [(WIDE, "light"), (NARROW, "dark")], ids=["wide light", "narrow dark"])
def test_axe_finds_nothing_and_no_page_is_wider_than_its_window(
    open_window: Callable[..., Window], viewport: dict[str, int], scheme: str
) -> None:
    window = open_window(viewport, scheme)
    for place in (*PLACES, "brokers", "brokers/0", "transactions", "quotas", "no/such/page"):
        page = window.go(place)
        window.verdict("good")
        assert accessibility(page) == [], place
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], place


def test_every_dialog_passes_axe_and_gives_the_focus_back(window: Window) -> None:
    page = window.go("topics/orders")
    for name in ("Add partitions", "Reassign", "Trim", "Delete"):
        page.get_by_role("button", name=name, exact=True).click()
        page.locator("dialog[open]").wait_for()
        page.get_by_text("Copy as").click()
        assert accessibility(page) == [], name
        page.keyboard.press("Escape")
        page.locator("dialog").wait_for(state="detached")
        page.wait_for_function("name => document.activeElement.textContent === name", arg=name)


def test_a_topic_is_found_and_its_deletion_begun_with_the_keyboard_alone(window: Window) -> None:
    page = window.go("overview")
    window.verdict("good")

    def tab_to(text: str) -> None:
        focused = "(document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent).trim()"
        labelled = "document.activeElement.closest('label')?.textContent.trim() ?? ''"
        for _ in range(60):
            page.keyboard.press("Tab")
            if text in (page.evaluate(focused), page.evaluate(labelled)):
                return
        raise AssertionError(text)

    page.keyboard.press("Shift+Tab")
    page.evaluate("document.activeElement.blur(); window.getSelection().collapse(document.body, 0)")
    tab_to("Topics")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Topics").wait_for()
    tab_to("Search")
    page.keyboard.type("ord")
    window.row("Topics", "orders")
    tab_to("orders")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="orders").wait_for()
    tab_to("Delete")
    page.keyboard.press("Enter")
    page.locator("dialog[open]").wait_for()
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")


def test_hostile_names_are_text_wherever_they_are_shown(window: Window, backend: MemoryBackend) -> None:
    image = backend.image()
    lost = (PartitionImage((0,), (), -1, 0, 0),)
    topics = {name: TopicImage(name, UUID(int=77), lost) for name in (HOSTILE, "x" * 249)}
    hostile = replace(image, topics={**image.topics, **topics})
    backend.image = lambda: hostile  # type: ignore[method-assign]
    backend.groups[HOSTILE] = MemoryGroup("Stable", [], {("orders", 0): 0})
    dialogs: list[Any] = []
    window.page.on("dialog", lambda dialog: dialogs.append(dialog) or dialog.dismiss())  # type: ignore[func-returns-value]
    page = window.go("topics")
    window.row("Topics", "<img")
    page.get_by_role("link", name="<img").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.locator("dialog h2", has_text="<img").wait_for()
    page.get_by_label("Type the topic's name").fill(HOSTILE)
    page.get_by_text("Copy as").click()
    window.go("groups")
    window.row("Groups", "<img")
    window.go("overview")
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDE["width"]
    assert page.locator("img").count() == 0 and dialogs == []


def test_ten_thousand_topics_are_searched_with_few_rows_drawn(window: Window, backend: MemoryBackend) -> None:
    image = backend.image()
    part = PartitionImage((0,), (0,), 0, 0, 0)
    names = [f"topic-{n:05}" for n in range(10_000)]
    many = {name: TopicImage(name, UUID(int=1000 + n), (part,)) for n, name in enumerate(names)}
    large = replace(image, topics={**image.topics, **many})
    backend.image = lambda: large  # type: ignore[method-assign]
    page = window.go("topics")
    window.row("Topics", "topic-00001")
    page.get_by_text("10,001 of 10,001 topics").wait_for()
    assert page.locator("tbody tr").count() < DRAWN_MAX
    page.get_by_label("Search").fill("topic 777")
    assert window.row("Topics", "topic-07777")
    assert "q=topic+777" in page.url
    page.reload()
    assert window.row("Topics", "topic-07777"), "the address shows the same to another reader"
    page.get_by_label("Search").fill("")
    page.locator(".scroll.long").evaluate("box => box.scrollTop = box.scrollHeight")
    assert window.row("Topics", "topic-09999")
