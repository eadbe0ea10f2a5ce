"""The hub: what is looked at, how often, and what a page is sent."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from support.waiting import turns_until
from tailrace.clock import ManualClock
from tailrace_gateway.rest.console.hub import (
    BEAT_MS,
    EVENT_ROWS,
    HUBS_OF_ONE_MAX,
    KEPT_MS,
    PARTS_MAX,
    STREAM_MS,
    USERS_MAX,
    Hub,
    Hubs,
    Look,
    LookResult,
    Viewer,
)
from tailrace_gateway.rest.console.rows import Row
from tailrace_gateway.rest.errors import RestError


class Cluster:
    """A part whose rows are these, and how often it was looked at."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {"a": {"n": 1}}
        self.failure: Exception | None = None
        self.looks = 0

    def looks_of(self, name: str) -> Look:
        async def look() -> LookResult:
            self.looks += 1
            if self.failure is not None:
                raise self.failure
            return LookResult(dict(self.rows), 1_000)

        return look


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def parsed(event: bytes) -> tuple[str, Any]:
    kind, data = event.decode().rstrip("\n").split("\n")
    return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def next_of(events: AsyncIterator[bytes], kind: str) -> Any:
    async for event in events:
        name, data = parsed(event)
        if name == kind:
            return data
    raise AssertionError


async def test_a_page_is_sent_the_rows_and_then_what_changes(cluster: Cluster, clock: ManualClock) -> None:
    hub = Hub(cluster.looks_of, clock, "one")
    with hub.watched({"part": 0}):
        await turns_until(lambda: cluster.looks)
        events = hub.events({"part": 0})
        first = await next_of(events, "rows")
        assert (first["hub"], first["reset"], first["rows"]) == ("one", True, [["a", {"n": 1}]])
        cluster.rows["b"] = {"n": 2}
        clock.advance(1_000)
        second = await next_of(events, "rows")
        assert (second["reset"], second["rows"], second["gone"]) == (False, [["b", {"n": 2}]], [])
        assert second["revision"] > first["revision"]


async def test_a_row_after_a_first_look_that_found_none_is_sent(cluster: Cluster, clock: ManualClock) -> None:
    cluster.rows = {}
    hub = Hub(cluster.looks_of, clock, "one")
    with hub.watched({"part": 0}):
        await turns_until(lambda: cluster.looks)
        events = hub.events({"part": 0})
        first = await next_of(events, "rows")
        assert (first["reset"], first["rows"], first["revision"]) == (True, [], 1)
        cluster.rows = {"a": {"n": 1}}
        clock.advance(1_000)
        second = await next_of(events, "rows")
        assert (second["reset"], second["rows"], second["revision"]) == (False, [["a", {"n": 1}]], 2)


async def test_parts_that_begin_empty_and_full_never_share_a_revision(cluster: Cluster, clock: ManualClock) -> None:
    empty = Cluster()
    empty.rows = {}
    hub = Hub(lambda name: (empty if name == "empty" else cluster).looks_of(name), clock, "one")
    with hub.watched({"empty": 0, "full": 0}):
        await turns_until(lambda: cluster.looks and empty.looks)
        events = hub.events({"empty": 0, "full": 0})
        first, second = await next_of(events, "rows"), await next_of(events, "rows")
        assert sorted([first["revision"], second["revision"]]) == [1, 2]


async def test_pages_that_watch_the_same_part_ask_once(cluster: Cluster, clock: ManualClock) -> None:
    hub = Hub(cluster.looks_of, clock, "one")
    with hub.watched({"part": 0}), hub.watched({"part": 0}):
        await turns_until(lambda: cluster.looks)
        assert cluster.looks == 1
    await asyncio.sleep(0)
    clock.advance(10_000)
    await asyncio.sleep(0)
    assert cluster.looks == 1, "nothing is asked where no page watches"


async def test_a_page_that_comes_back_within_the_wait_asks_nothing_more(cluster: Cluster, clock: ManualClock) -> None:
    hub = Hub(cluster.looks_of, clock, "one")
    with hub.watched({"part": 0}):
        await turns_until(lambda: cluster.looks)
        known = (await next_of(hub.events({"part": 0}), "rows"))["revision"]
    with hub.watched({"part": known}):
        kind, beat = parsed(await anext(hub.events({"part": known})))
        assert (kind, cluster.looks) == ("beat", 1)
        assert (beat["parts"]["part"]["age_ms"], beat["parts"]["part"]["wait_ms"]) == (0, 1_000)


async def test_a_part_that_fails_keeps_its_rows_and_says_why_and_how_old_it_is(
    cluster: Cluster, clock: ManualClock
) -> None:
    hub = Hub(cluster.looks_of, clock, "one")
    with hub.watched({"part": 0}):
        await turns_until(lambda: cluster.looks)
        events = hub.events({"part": 0})
        await next_of(events, "beat")
        cluster.failure = TimeoutError()
        clock.advance(5_000)
        beat = await next_of(events, "beat")
        assert beat["parts"]["part"]["age_ms"] == 5_000
        assert beat["parts"]["part"]["failure"].startswith("The cluster did not answer in time")


@pytest.mark.parametrize("error", [KeyError(7), ValueError()])
async def test_a_look_with_an_error_that_has_no_translation_is_shown_logged_once_and_repeated(
    cluster: Cluster, clock: ManualClock, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    cluster.failure = error
    hub = Hub(cluster.looks_of, clock, "one")
    with hub.watched({"part": 0}):
        await turns_until(lambda: cluster.looks)
        events = hub.events({"part": 0})
        assert (await next_of(events, "beat"))["parts"]["part"]["failure"].startswith("This gateway failed")
        clock.advance(BEAT_MS)
        await turns_until(lambda: cluster.looks == 2)
        assert [record.exc_info is not None for record in caplog.records] == [True]
        cluster.failure = None
        clock.advance(BEAT_MS)
        assert (await next_of(events, "rows"))["rows"] == [["a", {"n": 1}]]
        assert (await next_of(events, "beat"))["parts"]["part"]["failure"] == ""


async def test_many_rows_are_many_events_and_the_last_alone_has_the_revision(
    cluster: Cluster, clock: ManualClock
) -> None:
    cluster.rows = {str(n): {} for n in range(EVENT_ROWS + 1)}
    hub = Hub(cluster.looks_of, clock, "one")
    with hub.watched({"part": 0}):
        await turns_until(lambda: cluster.looks)
        events = hub.events({"part": 0})
        first, second = await next_of(events, "rows"), await next_of(events, "rows")
        assert [len(one["rows"]) for one in (first, second)] == [EVENT_ROWS, 1]
        assert [one["reset"] for one in (first, second)] == [True, False]
        assert first["revision"] is None and second["revision"] == 1


async def test_a_stream_ends_before_a_request_may_not_take_longer(cluster: Cluster, clock: ManualClock) -> None:
    hub = Hub(cluster.looks_of, clock, "one")
    with hub.watched({"part": 0}):
        await turns_until(lambda: cluster.looks)
        events = hub.events({"part": 0})
        await next_of(events, "beat")
        cluster.rows = {}
        clock.advance(STREAM_MS + 1)
        assert [event async for event in events] == [], "the page asks again from where it is"


async def test_parts_are_bounded(cluster: Cluster, clock: ManualClock) -> None:
    hub = Hub(cluster.looks_of, clock, "one")
    names = {str(n): 0 for n in range(PARTS_MAX)}
    with hub.watched(names), pytest.raises(RestError), hub.watched({"more": 0}):
        raise AssertionError
    with hub.watched({"more": 0}):  # in the place of one that no page watches
        pass


@contextmanager
def open_pages(hubs: Hubs, cluster: Cluster, *viewers: Viewer) -> Iterator[None]:
    with ExitStack() as stack:
        for viewer in viewers:
            stack.enter_context(stack.enter_context(hubs.of(viewer, lambda: cluster.looks_of)).watched({}))
        yield


def is_refused(hubs: Hubs, cluster: Cluster, viewer: Viewer) -> bool:
    try:
        with open_pages(hubs, cluster, viewer):
            return False
    except RestError:
        return True


def test_users_are_bounded_and_those_that_watch_nothing_make_room(cluster: Cluster, clock: ManualClock) -> None:
    hubs = Hubs(clock, random.Random(1))
    users = [Viewer(n) for n in range(USERS_MAX)]
    with open_pages(hubs, cluster, *users):
        assert is_refused(hubs, cluster, Viewer("more"))
        assert not is_refused(hubs, cluster, Viewer(0, "elsewhere"))
    for n in range(2 * USERS_MAX):
        assert not is_refused(hubs, cluster, Viewer(f"next {n}"))


def test_one_user_at_many_addresses_takes_no_other_users_place(cluster: Cluster, clock: ManualClock) -> None:
    hubs = Hubs(clock, random.Random(1))
    with open_pages(hubs, cluster, *[Viewer("one", str(n)) for n in range(HUBS_OF_ONE_MAX)]):
        assert is_refused(hubs, cluster, Viewer("one", "more"))
        assert not is_refused(hubs, cluster, Viewer("other"))
    for n in range(2 * HUBS_OF_ONE_MAX):
        assert not is_refused(hubs, cluster, Viewer("one", f"next {n}"))


def test_a_hub_is_kept_a_moment_after_its_last_page(cluster: Cluster, clock: ManualClock) -> None:
    hubs = Hubs(clock, random.Random(1))

    def name() -> str:
        with hubs.of(Viewer(), lambda: cluster.looks_of) as found:
            return found.name

    first = name()
    clock.advance(KEPT_MS - 1)
    assert name() == first
    clock.advance(KEPT_MS)
    assert name() != first
