"""Python's collections wait while large messages live, but not for ever."""

from __future__ import annotations

import gc

import pytest

from tailrace.net.garbage_collection import MOST_SECONDS, Collections


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
    passes: list[int] = []
    monkeypatch.setattr(gc, "collect", passes.append)
    collections = Collections()
    collections.hold(0.0)
    for now_seconds in (MOST_SECONDS, MOST_SECONDS + 1, MOST_SECONDS + 2, 2 * MOST_SECONDS + 2):
        collections.hold(now_seconds)
    assert passes == [1, 1]
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
