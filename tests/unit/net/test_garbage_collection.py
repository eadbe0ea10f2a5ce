"""Python's collections wait while large messages live, but not for ever."""

from __future__ import annotations

import gc
from contextlib import ExitStack, closing

import pytest

from support.memory_streams import VirtualLoop
from tailrace.net.garbage_collection import MOST_OF_ONE_SECONDS, MOST_SECONDS, Collections


def test_they_wait_until_the_last_holder_has_released() -> None:
    collections = Collections()
    collections.hold(1.0)
    collections.hold(2.0)
    assert not gc.isenabled()
    collections.release()
    assert not gc.isenabled()
    collections.release()
    assert gc.isenabled()


def test_one_takes_place_where_they_were_held_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: passes.append("of everything"))
    collections = Collections()
    collections.hold(0.0)
    for now_seconds in (MOST_SECONDS, MOST_SECONDS + 1, MOST_SECONDS + 2, 2 * MOST_SECONDS + 2):
        collections.hold(now_seconds)
    assert passes == ["of everything"] * 2
    for _ in range(5):
        collections.release()
    assert gc.isenabled()


def test_who_had_them_off_before_still_has() -> None:
    gc.disable()
    try:
        collections = Collections()
        collections.hold(0.0)
        collections.release()
        assert not gc.isenabled()
    finally:
        gc.enable()


async def begin(collections: Collections, request: ExitStack, size_bytes: int = 0) -> None:
    request.enter_context(collections.while_in_use(size_bytes))


def test_a_request_that_waits_for_minutes_does_not_hold_them_back() -> None:
    collections, request = Collections(), ExitStack()
    with closing(VirtualLoop()) as loop:
        loop.run(begin(collections, request))
        loop.settle(MOST_OF_ONE_SECONDS * 900)
        assert not gc.isenabled()
        loop.settle(MOST_OF_ONE_SECONDS * 200)
        assert gc.isenabled()
        collections.hold(loop.time())
        request.close()
        assert not gc.isenabled()  # it has released what it held, and no more
        collections.release()
    assert gc.isenabled()


def test_a_request_that_is_answered_soon_releases_them_once() -> None:
    collections, request = Collections(), ExitStack()
    with closing(VirtualLoop()) as loop:
        loop.run(begin(collections, request))
        request.close()
        assert gc.isenabled()
        collections.hold(loop.time())
        loop.settle(MOST_OF_ONE_SECONDS * 2000)
        assert not gc.isenabled()
        collections.release()
    assert gc.isenabled()


def test_a_request_of_fifteen_megabytes_has_a_minute() -> None:
    collections = Collections()
    with closing(VirtualLoop()) as loop, ExitStack() as request:
        loop.run(begin(collections, request, 15_000_000))
        loop.settle(60_000)
        assert not gc.isenabled()
        loop.settle(20_000)
        assert gc.isenabled()
