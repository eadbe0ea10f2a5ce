"""Producing over HTTP. The body is one record, or several JSON objects one after the other; the answer has one line for
each, in order. A single record's refusal is the HTTP status; of several each line has its own error_code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import islice

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from tailrace.records.record import Record
from tailrace_gateway.rest.errors import RestError, body_of
from tailrace_gateway.rest.kafka import records
from tailrace_gateway.rest.kafka.records import Written, bad_record
from tailrace_gateway.rest.models import NewRecord, RecordData, WrittenData, WrittenRecord
from tailrace_gateway.rest.scope import InCluster, Scope

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics/{topic_name}/records", tags=["Records"])
# The gateway's event loop also relays data: what one request may make it parse is small.
RECORDS_MAX = 1_000
_SPACE = re.compile(r"[ \t\r\n]*")
_REQUEST_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": NewRecord.model_json_schema()}},
    },
    "responses": {
        "200": {
            "description": "One result per record",
            "content": {"application/json": {"schema": WrittenRecord.model_json_schema()}},
        }
    },
}


def objects_of(text: str) -> Iterator[object]:
    """JSON values one after the other, with or without white space between them."""
    decoder = json.JSONDecoder()
    position = _SPACE.match(text).end()  # type: ignore[union-attr]
    while position < len(text):
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as wrong:
            raise bad_record(f"Not JSON: {wrong}.") from None
        yield value
        position = _SPACE.match(text, end).end()  # type: ignore[union-attr]


def parse(body: bytes) -> list[NewRecord]:
    """The records of a body; 400 if there are none or one of them is not a record."""
    try:
        wanted = [NewRecord.model_validate(value) for value in islice(objects_of(body.decode()), RECORDS_MAX + 1)]
    except UnicodeDecodeError:
        raise bad_record("Not UTF-8.") from None
    except ValidationError as wrong:
        problem = wrong.errors()[0]
        raise bad_record(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from None
    if not wanted:
        raise bad_record("No record.")
    if len(wanted) > RECORDS_MAX:
        raise bad_record(f"More than {RECORDS_MAX} records.")
    return wanted


def _size(data: RecordData | None, content: bytes | None) -> WrittenData | None:
    return None if data is None or content is None else WrittenData(type=data.type, size=len(content))


def written_of(scope: Scope, topic: str, new: NewRecord, done: Written) -> WrittenRecord:
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


def _line(scope: Scope, topic: str, new: NewRecord, outcome: Written | RestError) -> str:
    if isinstance(outcome, RestError):
        return json.dumps(body_of(outcome))
    return written_of(scope, topic, new, outcome).model_dump_json(exclude_none=True)


@router.post("", openapi_extra=_REQUEST_BODY)
async def produce_records(scope: InCluster, topic_name: str, request: Request) -> Response:
    """Produces records with acks=all."""
    # A browser sends other types across origins without asking first; this one it may not.
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        raise RestError(status, int(status), "HTTP 415 Unsupported Media Type: send application/json.")
    topic = scope.topic(topic_name)
    wanted = parse(await request.body())
    now_ms = scope.clock.wall_ms()
    placed: list[tuple[int, Record]] = []
    for new in wanted:
        record = records.to_record(new, now_ms)
        placed.append((records.choose_partition(topic, new, record, scope.random), record))
    outcomes = await records.produce(scope.backend, topic, placed)
    if len(outcomes) == 1 and isinstance(outcomes[0], RestError):
        raise outcomes[0]
    lines = [_line(scope, topic_name, new, outcome) for new, outcome in zip(wanted, outcomes, strict=True)]
    return Response("\n".join(lines) + "\n", media_type="application/json")
