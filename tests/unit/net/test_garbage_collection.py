"""Python's collections wait while large messages live, but not for ever."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from threading import Thread
from weakref import ref

import pytest

from support.memory_streams import VirtualLoop
from support.waiting import HUNG_S
from tailrace.net.garbage_collection import MOST_OF_ONE_SECONDS, MOST_SECONDS, Collections, Survivors


def test_they_wait_until_the_last_holder_has_released() -> None:
    collections = Collections()
    collections.hold()
    collections.hold()
    assert not gc.isenabled()
    collections.release()
    assert not gc.isenabled()
    collections.release()
    assert gc.isenabled()


def test_one_takes_place_where_they_were_held_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: passes.append("of everything"))
    used = iter((0.0, MOST_SECONDS, MOST_SECONDS + 1, MOST_SECONDS + 2, 2 * MOST_SECONDS + 2))
    collections = Collections(lambda: next(used))
    for _ in range(5):
        collections.hold()
    assert passes == ["of everything"] * 2
    for _ in range(5):
        collections.release()
    assert gc.isenabled()


def test_nobody_waits_for_one_who_only_holds_or_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that frees rows, and the end of a request that the collection itself finds: both release."""
    released: list[bool] = []

    def collect() -> None:
        for release in (lambda: collections.release(), lambda: collections.hold()):
            other = Thread(target=release, daemon=True)
            other.start()
            other.join(HUNG_S)
            released.append(not other.is_alive())

    monkeypatch.setattr(gc, "collect", collect)
    used = iter((0.0, MOST_SECONDS + 1, MOST_SECONDS + 2))
    collections = Collections(lambda: next(used))
    collections.hold()
    collections.hold()
    assert released == [True, True]
    assert not gc.isenabled()
    collections.release()
    collections.release()
    assert gc.isenabled()


def test_one_takes_place_beside_a_very_large_request_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: passes.append("of everything"))
    with closing(VirtualLoop()) as loop, ExitStack() as request:
        loop.run(begin(of_a_busy_process(loop), request, 100_000_000))
        loop.settle(3.5 * MOST_SECONDS * 1000)
        assert 2 <= len(passes) <= 3
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_had_them_off_before_still_has() -> None:
    gc.disable()
    try:
        collections = Collections()
        collections.hold()
        collections.release()
        assert not gc.isenabled()
    finally:
        gc.enable()


async def begin(collections: Collections, request: ExitStack, size_bytes: int = 0) -> None:
    request.enter_context(collections.while_in_use(size_bytes))


def of_a_busy_process(loop: VirtualLoop) -> Collections:
    """Where every second of the loop is one of the processor."""
    return Collections(loop.time)


def test_a_request_that_waits_for_minutes_while_others_work_does_not_hold_them_back() -> None:
    request = ExitStack()
    with closing(VirtualLoop()) as loop:
        collections = of_a_busy_process(loop)
        loop.run(begin(collections, request))
        loop.settle(MOST_OF_ONE_SECONDS * 900)
        assert not gc.isenabled()
        loop.settle(MOST_OF_ONE_SECONDS * 200)
        assert gc.isenabled()
        collections.hold()
        request.close()
        assert not gc.isenabled()  # it has released what it held, and no more
        collections.release()
    assert gc.isenabled()


def test_a_request_that_is_answered_soon_releases_them_once() -> None:
    request = ExitStack()
    with closing(VirtualLoop()) as loop:
        collections = of_a_busy_process(loop)
        loop.run(begin(collections, request))
        request.close()
        assert gc.isenabled()
        collections.hold()
        loop.settle(MOST_OF_ONE_SECONDS * 2000)
        assert not gc.isenabled()
        collections.release()
    assert gc.isenabled()


def test_a_request_of_fifteen_megabytes_has_a_minute() -> None:
    with closing(VirtualLoop()) as loop, ExitStack() as request:
        collections = of_a_busy_process(loop)
        loop.run(begin(collections, request, 15_000_000))
        loop.settle(60_000)
        assert not gc.isenabled()
        loop.settle(20_000)
        assert gc.isenabled()


def test_on_a_machine_with_much_else_to_do_a_request_has_the_processor_time_it_needs() -> None:
    with closing(VirtualLoop()) as loop, ExitStack() as request:
        collections = Collections(lambda: loop.time() / 20)
        loop.run(begin(collections, request))
        loop.settle(MOST_OF_ONE_SECONDS * 19_000)
        assert not gc.isenabled()
        loop.settle(MOST_OF_ONE_SECONDS * 2_000)
        assert gc.isenabled()


class Node:
    """In a circle with itself, so that only a collection ends it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def survivors() -> Iterator[tuple[Survivors, list[float]]]:
    """With the processor time that they see."""
    thresholds, used = gc.get_threshold(), [0.0]
    survivors = Survivors(lambda: used[0])
    survivors.begin()
    survivors.keep_all()
    yield survivors, used
    survivors.end()
    gc.unfreeze()
    gc.set_threshold(*thresholds)


Seen = tuple[Survivors, list[float]]


def garbage_since_a_collection() -> ref[Node]:
    """An object that a full collection found in use, and that nobody has any more."""
    later = Node()
    garbage = ref(later)
    gc.collect()
    return garbage


def test_what_a_full_collection_found_in_use_is_left_out_of_the_next(survivors: Seen) -> None:
    kept = [Node() for _ in range(1_000)]
    assert any(found is kept for found in gc.get_objects())
    gc.collect()
    assert not any(found is kept for found in gc.get_objects())  # which does not look at what is frozen
    garbage = ref(Node())
    gc.collect()
    assert garbage() is None


def test_what_became_garbage_later_is_found_when_there_is_much_more_and_time_has_passed(survivors: Seen) -> None:
    _, used = survivors
    garbage = garbage_since_a_collection()
    known, frozen = sys.getallocatedblocks(), gc.get_freeze_count()
    kept = [Node() for _ in range(known)]  # each of two blocks
    gc.collect()
    gc.collect()
    assert garbage() is not None  # a short time after all were walked
    used[0] = MOST_SECONDS + 1
    gc.collect()
    assert garbage() is not None
    gc.collect()
    assert garbage() is None and kept
    assert gc.get_freeze_count() > frozen


def test_time_alone_makes_no_collection_walk_all(survivors: Seen) -> None:
    _, used = survivors
    garbage = garbage_since_a_collection()
    used[0] = 10 * MOST_SECONDS
    gc.collect()
    gc.collect()
    assert garbage() is not None


def many() -> list[Node]:
    return [Node() for _ in range(20_000)]


def test_much_that_was_made_while_they_were_held_is_not_walked_afterwards(survivors: Seen) -> None:
    collections = Collections(on_released=survivors[0].keep_many)
    collections.hold()
    kept = many()
    collections.release()
    assert gc.isenabled() and kept
    assert gc.get_count()[0] < 1_000
    assert not any(found is kept for found in gc.get_objects())


def test_little_that_was_made_while_they_were_held_is_walked_as_ever(survivors: Seen) -> None:
    collections = Collections(on_released=survivors[0].keep_many)
    collections.hold()
    kept = [Node() for _ in range(100)]
    collections.release()
    assert any(found is kept for found in gc.get_objects())


def test_garbage_of_the_time_in_which_they_were_held_is_found_when_there_is_much_more(survivors: Seen) -> None:
    seen, used = survivors
    collections = Collections(on_released=seen.keep_many)
    collections.hold()
    garbage = ref(many()[0])
    collections.release()
    gc.collect()
    assert garbage() is not None
    used[0] = MOST_SECONDS + 1
    collections.hold()
    kept = [Node() for _ in range(sys.getallocatedblocks())]
    collections.release()
    gc.collect()
    assert garbage() is None and kept
