"""Work in pieces: one piece of all of it in each turn of the loop."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tailrace.net import pieces
from tailrace.net.pieces import ROWS_AT_ONCE, each_once, freed, in_pieces, others_first
from tailrace.net.spread import Spread


async def test_several_requests_in_pieces_share_the_turns_of_the_loop() -> None:
    """Twenty at once hold the loop no longer at a time than one does."""
    turn, pieces = 0, dict[int, int]()
    over = asyncio.Event()

    async def count_turns() -> None:
        nonlocal turn
        while not over.is_set():
            turn += 1
            await asyncio.sleep(0)

    async def work() -> None:
        async for row in in_pieces(range(30), at_once=10):
            if row % 10 == 0:
                pieces[turn] = pieces.get(turn, 0) + bool(row)

    counting = asyncio.create_task(count_turns())
    await asyncio.gather(*(work() for _ in range(20)))
    over.set()
    await counting
    assert sum(pieces.values()) == 40
    assert max(pieces.values()) <= 2  # the wake-up of one may share a turn with that of the next


async def test_who_is_cancelled_while_others_go_first_holds_nobody_up() -> None:
    waiting = [asyncio.create_task(others_first()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    assert await asyncio.gather(*waiting, return_exceptions=True) != []
    await others_first()


def test_a_spread_mapping_finds_what_was_put_in() -> None:
    spread: Spread[str, int] = Spread()
    spread.update({f"k{number}": number for number in range(1000)})
    spread["k5"] = -5
    assert [spread[f"k{number}"] for number in (0, 5, 999)] == [0, -5, 999]


async def test_a_mapping_of_very_many_keys_is_one_and_ends_in_pieces() -> None:
    spread: Spread[str, int] = Spread()
    spread.update({f"k{number}": number for number in range(1000)})
    assert (len(spread), len(list(spread)), spread["k7"], spread.get("none")) == (1000, 1000, 7, None)
    assert "k999" in spread and "k1000" not in spread
    await freed(spread)
    assert not spread


async def test_rows_in_rows_are_freed_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        turns += 1

    monkeypatch.setattr(pieces, "others_first", turn)
    inner = [list(range(ROWS_AT_ONCE * 10))]
    named = [("t", list(range(ROWS_AT_ONCE // 2))) for _ in range(20)]
    await freed(inner, named, list(range(ROWS_AT_ONCE * 3)))
    assert not inner and not named
    assert turns >= 10 + 10 + 3


async def test_rows_that_take_long_end_a_piece_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, used_ms = 0, itertools.count(0.0, 1.5)

    async def turn() -> None:
        nonlocal turns
        turns += 1

    monkeypatch.setattr(pieces, "others_first", turn)
    monkeypatch.setattr(pieces, "thread_time_ms", lambda: next(used_ms))
    assert [row async for row in in_pieces(range(ROWS_AT_ONCE))] == list(range(ROWS_AT_ONCE))
    assert turns == 5  # two looks are more than two milliseconds
    turns = 0
    assert [row async for row in in_pieces(range(ROWS_AT_ONCE // 10 - 1))] and turns == 0


async def test_a_set_of_very_many_says_what_is_in_it() -> None:
    found = await each_once(in_pieces(["a", "b", "a"]))
    assert (len(found), "b" in found, "c" in found) == (2, True, False)
    assert not await each_once(in_pieces([]))
