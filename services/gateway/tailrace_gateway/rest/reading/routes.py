"""GET …/records: a page, or with `Accept: text/event-stream` a stream."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from tailrace.net.identity import ANONYMOUS
from tailrace_gateway.rest.reading.models import RecordList, RecordsQuery
from tailrace_gateway.rest.reading.page import page
from tailrace_gateway.rest.reading.places import ReadingPlaces
from tailrace_gateway.rest.reading.reading import wish_of
from tailrace_gateway.rest.reading.stream import EventStream, events
from tailrace_gateway.rest.scope import ClusterScope, InCluster, Part

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics/{topic_name}", tags=["Records"])
_ALSO_EVENTS: Final = {"content": {EventStream.media_type: {"schema": {"type": "string"}}}}
Wanted = Annotated[RecordsQuery, Query()]


@router.get("/records", responses={200: {"model": RecordList, **_ALSO_EVENTS}}, response_class=Response)
async def read_records(scope: InCluster, topic_name: str, query: Wanted, request: Request) -> Response:
    """Reads records of a topic: a page with the cursor of the next one, or a stream of Server-Sent Events."""
    return await _read(scope, topic_name, None, query, request)


@router.get(
    "/partitions/{partition_id}/records",
    responses={200: {"model": RecordList, **_ALSO_EVENTS}},
    response_class=Response,
)
async def read_partition_records(
    scope: InCluster, topic_name: str, partition_id: int, query: Wanted, request: Request
) -> Response:
    """Reads records of a partition."""
    return await _read(scope, topic_name, partition_id, query, request)


async def _read(
    scope: ClusterScope, topic: str, partition: int | None, query: RecordsQuery, request: Request
) -> Response:
    places: ReadingPlaces = request.app.state.reading_places
    address = request.client.host if request.client else ""
    is_stream = EventStream.media_type in request.headers.get("accept", "")
    place = places.reading(address, request.scope.get("principal") or ANONYMOUS, is_stream=is_stream)
    resumed = request.headers.get("last-event-id") if is_stream else None
    wish = wish_of(scope, topic, partition, query, resumed=resumed, is_stream=is_stream)
    if is_stream:
        return EventStream(events(scope, wish, query), places, place, request.scope.get("deadline"))
    of_partition: tuple[Part, ...] = () if partition is None else ("partitions", partition)
    with place:
        content = await page(scope, ("topics", topic, *of_partition, "records"), wish, query)
    return Response(content, media_type="application/json")
