"""Producing over HTTP. The body is one record, or several JSON objects one after the other; the answer has one line for
each, in order, as soon as it is known. A record that is refused has its own line and does no harm to the others.

The refusal of a single record in a body of announced length is the HTTP status, and so is what ends the body before its
first record. Otherwise the status is 200 and each line has its own error_code.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from tailrace.clock import Clock
from tailrace.metadata.image import TopicImage
from tailrace.records.record import Record
from tailrace_gateway.rest.errors import RestError, as_rest_error, body_of, plain
from tailrace_gateway.rest.limits import BODY_BYTES_MAX
from tailrace_gateway.rest.records import kafka as records
from tailrace_gateway.rest.records.json_objects import JsonObjects
from tailrace_gateway.rest.records.kafka import RecordPosition, bad_record
from tailrace_gateway.rest.records.models import RECORDS_MAX, NewRecord, RecordData, WrittenData, WrittenRecord
from tailrace_gateway.rest.scope import ClusterScope, InCluster

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics/{topic_name}/records", tags=["Records"])
STREAM_SECONDS_MAX = 25  # less than a request may take, so that its end can be said
_SCANNED_BYTES = 16 << 10
_REQUEST_BODY: dict[str, object] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/NewRecord"}}},
    },
}


Outcome = tuple[
    NewRecord | None, RecordPosition | RestError
]  # a record as it was sent, None if it is none; what became of it


class Lines(Response):
    """An answer of lines that are sent as they come; starlette's own would read what is left of the request."""

    media_type = "application/json"

    def __init__(self, lines: AsyncIterator[str], status_code: int = HTTPStatus.OK) -> None:
        self.body_iterator = lines
        self.status_code = status_code
        self.background = None
        self.init_headers()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": int(self.status_code), "headers": self.raw_headers})
        async for text in self.body_iterator:
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def groups_of(body: AsyncIterator[bytes], clock: Clock) -> AsyncIterator[list[bytes]]:
    """The objects of a body, those together that came together. Raises RestError where no more can be taken."""
    objects, left = JsonObjects(BODY_BYTES_MAX), RECORDS_MAX
    async for chunk in body:
        for first in range(0, len(chunk), _SCANNED_BYTES):
            found = objects.feed(chunk[first : first + _SCANNED_BYTES])
            if taken := found[:left]:
                yield taken
            left -= len(found)
            if left < 0:
                raise bad_record(f"More than {RECORDS_MAX} records.")
            if objects.failure is not None:
                raise bad_record(objects.failure)
            await clock.sleep(0)  # others have their turn
    if not objects.is_between:
        raise bad_record("Not JSON: the last object has no end.")
    if left == RECORDS_MAX:
        raise bad_record("No record.")


def parse(content: bytes) -> NewRecord | RestError:
    """One record, or why it is none."""
    try:
        return NewRecord.model_validate(json.loads(content))
    except ValidationError as wrong:
        return as_rest_error(wrong)
    except (ValueError, RecursionError) as wrong:  # UnicodeDecodeError is one
        return bad_record(f"Not JSON: {wrong}.")


async def produced(scope: ClusterScope, topic: TopicImage, group: Sequence[NewRecord | RestError]) -> list[Outcome]:
    """Writes those of a group that are records, and says of each what became of it."""
    outcomes: list[Outcome | None] = [None] * len(group)
    placed: list[tuple[int, Record]] = []
    sent: list[tuple[int, NewRecord]] = []
    now_ms = scope.clock.wall_ms()
    for index, new in enumerate(group):
        if isinstance(new, RestError):
            outcomes[index] = (None, new)
            continue
        try:
            record = records.to_record(new, now_ms)
            placed.append((records.choose_partition(topic, new, record, scope.random), record))
            sent.append((index, new))
        except RestError as refused:
            outcomes[index] = (new, refused)
    for (index, new), result in zip(sent, await records.produce(scope.backend, topic, placed), strict=True):
        outcomes[index] = (new, result)
    return [outcome for outcome in outcomes if outcome is not None]


async def outcomes_of(scope: ClusterScope, topic: TopicImage, body: AsyncIterator[bytes]) -> AsyncIterator[Outcome]:
    """What became of each record of a body, in order. Raises RestError where the body cannot be read on."""
    async for group in groups_of(body, scope.clock):
        for outcome in await produced(scope, topic, [parse(content) for content in group]):
            yield outcome


def _size(data: RecordData | None, content: bytes | None) -> WrittenData | None:
    return None if data is None or content is None else WrittenData(type=data.type, size=len(content))


def written_of(scope: ClusterScope, topic: str, new: NewRecord, done: RecordPosition) -> WrittenRecord:
    """A success as a resource."""
    moment = datetime.fromtimestamp(done.timestamp_ms / 1000, UTC)
    return WrittenRecord(
        cluster_id=scope.cluster_id,
        topic_name=topic,
        partition_id=done.partition,
        offset=done.offset,
        timestamp=moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        key=_size(new.key, done.record.key),
        value=_size(new.value, done.record.value),
    )


def _line(scope: ClusterScope, topic: str, outcome: Outcome) -> str:
    new, result = outcome
    if isinstance(result, RestError):
        return json.dumps(body_of(result)) + "\n"
    assert new is not None
    return written_of(scope, topic, new, result).model_dump_json(exclude_none=True) + "\n"


async def _nothing() -> AsyncIterator[Outcome]:
    return
    yield


async def _lines(
    scope: ClusterScope, topic: str, first: list[Outcome], ended_by: RestError | None, rest: AsyncIterator[Outcome]
) -> AsyncIterator[str]:
    """The answer, line by line; the last one says why the body was not read to its end, if it was not."""
    for outcome in first:
        yield _line(scope, topic, outcome)
    try:
        async with asyncio.timeout(STREAM_SECONDS_MAX):
            async for outcome in rest if ended_by is None else _nothing():
                yield _line(scope, topic, outcome)
    except TimeoutError:
        ended_by = plain(HTTPStatus.SERVICE_UNAVAILABLE, f"A request has {STREAM_SECONDS_MAX} seconds for its records.")
    except ClientDisconnect:
        return
    except Exception as wrong:  # noqa: BLE001 — the status is sent
        ended_by = as_rest_error(wrong)
    if ended_by is not None:
        yield json.dumps(body_of(ended_by)) + "\n"


@router.post("", openapi_extra=_REQUEST_BODY, response_class=Lines, responses={200: {"model": WrittenRecord}})
async def produce_records(scope: InCluster, topic_name: str, request: Request) -> Response:
    """Produces records with acks=all; the answer has one line for each record."""
    # A browser sends other types across origins without asking first; this one it may not.
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise plain(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "HTTP 415 Unsupported Media Type: send application/json.")
    outcomes = outcomes_of(scope, scope.topic(topic_name), request.stream())
    first = [await anext(outcomes)]
    ended_by = None
    if "content-length" in request.headers and isinstance(refused := first[0][1], RestError):
        try:
            second = await anext(outcomes, None)
        except RestError as wrong:
            ended_by = wrong
        else:
            if second is None:
                raise refused
            first.append(second)
    return Lines(_lines(scope, topic_name, first, ended_by, outcomes))
