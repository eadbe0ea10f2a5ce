"""Places of readings: the bounds of an address, a user, streams and all, and the end of streams with the server."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from tailrace.net.identity import ANONYMOUS
from tailrace_gateway.rest.errors import RestError
from tailrace_gateway.rest.reading.places import READINGS_MAX, READINGS_MAX_OF_ONE, STREAMS_MAX, ReadingPlaces


class Places(ReadingPlaces):
    """Places of which readings are taken until the end of a block."""

    def take(self, taken: ExitStack, address: str, principal: str = ANONYMOUS, *, is_stream: bool = False) -> None:
        taken.enter_context(self.reading(address, principal, is_stream=is_stream))


def test_an_address_has_some_places_and_all_together_have_more() -> None:
    places = Places()
    with ExitStack() as taken:
        for n in range(READINGS_MAX):
            places.take(taken, f"10.0.0.{n // READINGS_MAX_OF_ONE}")
        with pytest.raises(RestError):
            places.take(taken, "10.0.0.9")
    with ExitStack() as taken:
        for _ in range(READINGS_MAX_OF_ONE):
            places.take(taken, "10.0.0.1")
        with pytest.raises(RestError):
            places.take(taken, "10.0.0.1")
        places.take(taken, "10.0.0.2")


def test_a_user_has_some_places_from_all_addresses() -> None:
    places = Places()
    with ExitStack() as taken:
        for n in range(READINGS_MAX_OF_ONE):
            places.take(taken, f"10.0.0.{n}", "User:a")
        with pytest.raises(RestError):
            places.take(taken, "10.0.1.1", "User:a")
        places.take(taken, "10.0.1.1", "User:b")


def test_streams_leave_places_to_pages() -> None:
    places = Places()
    with ExitStack() as taken:
        for n in range(STREAMS_MAX):
            places.take(taken, f"10.0.0.{n}", is_stream=True)
        with pytest.raises(RestError):
            places.take(taken, "10.0.1.1", is_stream=True)
        for n in range(READINGS_MAX - STREAMS_MAX):
            places.take(taken, f"10.0.2.{n}")


async def test_streams_end_with_the_server() -> None:
    places = ReadingPlaces()
    sending = asyncio.ensure_future(asyncio.Event().wait())
    waiting = asyncio.create_task(places.stream(sending))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    places.end()
    await waiting
    assert sending.cancelled()
