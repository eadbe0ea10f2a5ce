"""Places of readings: one address cannot have all, all have a bound, and streams end with the server."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from tailrace_gateway.rest.errors import RestError
from tailrace_gateway.rest.reading.places import READINGS_MAX, READINGS_MAX_OF_ONE_ADDRESS, ReadingPlaces


def test_an_address_has_some_places_and_all_together_have_more() -> None:
    places = ReadingPlaces()
    with ExitStack() as taken:
        for n in range(READINGS_MAX):
            taken.enter_context(places.reading(f"10.0.0.{n // READINGS_MAX_OF_ONE_ADDRESS}"))
        with pytest.raises(RestError):
            taken.enter_context(places.reading("10.0.0.9"))
    with ExitStack() as taken:
        for _ in range(READINGS_MAX_OF_ONE_ADDRESS):
            taken.enter_context(places.reading("10.0.0.1"))
        with pytest.raises(RestError):
            taken.enter_context(places.reading("10.0.0.1"))
        taken.enter_context(places.reading("10.0.0.2"))


async def test_streams_end_with_the_server() -> None:
    places = ReadingPlaces()
    sending = asyncio.ensure_future(asyncio.Event().wait())
    waiting = asyncio.create_task(places.stream(sending))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    places.end()
    await waiting
    assert sending.cancelled()
