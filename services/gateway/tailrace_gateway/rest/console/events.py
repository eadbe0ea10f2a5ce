"""The stream of events of an open page: GET /console/events?part=REVISION:NAME&…, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from tailrace.net.identity import ANONYMOUS
from tailrace_gateway.rest.console.hub import Hub, Hubs, Looks, Viewer
from tailrace_gateway.rest.console.parts import looks_of
from tailrace_gateway.rest.errors import plain
from tailrace_gateway.rest.scope import Services, services_of

router = APIRouter(include_in_schema=False)
PARTS_OF_ONE_PAGE_MAX: Final = 8
_DIGITS_MAX: Final = 18
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@router.get("/console/events")
async def get_events(
    request: Request, part: Annotated[list[str], Query(max_length=PARTS_OF_ONE_PAGE_MAX)], hub: str = ""
) -> Response:
    """Rows of these parts that are newer than the revisions which the page has from that hub."""
    services = services_of(request)
    viewer = Viewer()  # all see the same where no rights are asked for
    if services.authorizer:
        viewer = Viewer(request.scope.get("principal") or ANONYMOUS, request.client.host if request.client else "")
    wanted = dict(_named(text) for text in part)
    events = _events(request.app.state.console, viewer, services, wanted, hub)
    first = await anext(events)  # its refusal is the status
    return StreamingResponse(_after(first, events), media_type="text/event-stream", headers=_HEADERS)


def _named(text: str) -> tuple[str, int]:
    revision, colon, name = text.partition(":")
    if not colon or len(revision) > _DIGITS_MAX or not revision.isascii() or not revision.isdigit():
        raise plain(HTTPStatus.BAD_REQUEST, "part: a revision, a colon and a name")
    return name, int(revision)


async def _events(
    hubs: Hubs, viewer: Viewer, services: Services, wanted: dict[str, int], known: str
) -> AsyncGenerator[bytes]:
    def looks() -> Looks:
        return looks_of(services.backend, services.clock)

    with hubs.of(viewer, looks) as hub, hub.watched(_from(hub, wanted, known)):
        async for event in hub.events(_from(hub, wanted, known)):
            yield event


async def _after(first: bytes, events: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    async with aclosing(events):
        yield first
        async for event in events:
            yield event


def _from(hub: Hub, wanted: dict[str, int], known: str) -> dict[str, int]:
    """Another hub's revisions say nothing here."""
    return wanted if known == hub.name else dict.fromkeys(wanted, 0)
