"""Every link that answers of the REST API print, followed."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

Get = Callable[[str], Awaitable[tuple[int, Any]]]


def links_of(answer: Any) -> Iterator[str]:
    """The addresses in an answer: `self` and `related`, wherever they are."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name in ("self", "related") and isinstance(value, str):
                yield value
            else:
                yield from links_of(value)
    elif isinstance(answer, list):
        for value in answer:
            yield from links_of(value)


async def followed(get: Get, *starts: str, leave_out: Callable[[str], bool] = lambda place: False) -> dict[str, int]:
    """The status of each place that can be reached from these."""
    found: dict[str, int] = {}
    waiting = list(starts)
    while waiting:
        place = waiting.pop()
        if place in found or leave_out(place):
            continue
        found[place], answer = await get(place)
        waiting += links_of(answer)
    return found


def dead(found: dict[str, int]) -> dict[str, int]:
    """Those that lead nowhere."""
    return {place: status for place, status in found.items() if status != 200}
