"""The stream of events of an open page: GET /console/events?part=REVISION:NAME&…, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from tailrace.net.identity import ANONYMOUS
from tailrace_gateway.rest.console.hub import Hub, Hubs, Looks
from tailrace_gateway.rest.console.parts import looks_of
from tailrace_gateway.rest.errors import plain
from tailrace_gateway.rest.scope import Services, services_of

router = APIRouter(include_in_schema=False)
PARTS_OF_ONE_PAGE_MAX: Final = 8
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@router.get("/console/events")
async def get_events(
    request: Request, part: Annotated[list[str], Query(max_length=PARTS_OF_ONE_PAGE_MAX)], hub: str = ""
) -> Response:
    """Rows of these parts that are newer than the revisions which the page has from that hub."""
    services = services_of(request)
    user = (request.scope.get("principal") or ANONYMOUS, request.client.host if request.client else "")
    hubs: Hubs = request.app.state.console
    wanted = dict(_named(text) for text in part)
    looks = looks_of(services.backend, services.clock)
    for name in wanted:
        looks(name)
    whose = user if services.authorizer else None
    hubs.check(whose)  # before the status is sent, as the parts
    stream = _stream(hubs, whose, services, wanted, hub)
    return StreamingResponse(stream, media_type="text/event-stream", headers=_HEADERS)


def _named(text: str) -> tuple[str, int]:
    revision, colon, name = text.partition(":")
    if not colon or not revision.isascii() or not revision.isdigit():
        raise plain(HTTPStatus.BAD_REQUEST, "part: a revision, a colon and a name")
    return name, int(revision)


async def _stream(
    hubs: Hubs, user: object, services: Services, wanted: dict[str, int], known: str
) -> AsyncIterator[bytes]:
    def looks() -> Looks:
        return looks_of(services.backend, services.clock)

    with hubs.of(user, looks) as hub, hub.watched(_from(hub, wanted, known)):
        async for event in hub.events(_from(hub, wanted, known)):
            yield event


def _from(hub: Hub, wanted: dict[str, int], known: str) -> dict[str, int]:
    """Another hub's revisions say nothing here."""
    return wanted if known == hub.name else dict.fromkeys(wanted, 0)
