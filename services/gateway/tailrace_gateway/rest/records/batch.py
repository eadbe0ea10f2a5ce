"""Producing a batch over HTTP: a body of many records, each with an id, and one answer when all are known."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter

from tailrace_gateway.rest.errors import RestError, plain
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.records.models import RecordBatch, RefusedEntry, WrittenBatch, WrittenEntry
from tailrace_gateway.rest.records.routes import produced, written_of
from tailrace_gateway.rest.scope import InCluster


class _BatchRoute(LimitedRoute):
    """Takes RECORDS_MAX records with a key, a value, a time and a header (54 tokens each)."""

    tokens_max = 60_000


router = APIRouter(route_class=_BatchRoute, prefix="/v3/clusters/{cluster_id}/topics/{topic_name}", tags=["Records"])


@router.post("/records:batch", status_code=HTTPStatus.MULTI_STATUS, response_model_exclude_none=True)
async def produce_batch(scope: InCluster, topic_name: str, batch: RecordBatch) -> WrittenBatch:
    """Produces several records with acks=all; each has its own outcome, in the order of the batch."""
    topic = scope.topic(topic_name)
    ids = [entry.id for entry in batch.entries]
    if len(set(ids)) < len(ids):
        raise plain(HTTPStatus.BAD_REQUEST, "Bad Request: entries: each has an id of its own.")
    answer = WrittenBatch(successes=[], failures=[])
    for entry, (_, result) in zip(batch.entries, await produced(scope, topic, batch.entries), strict=True):
        if isinstance(result, RestError):
            answer.failures.append(RefusedEntry(id=entry.id, error_code=result.error_code, message=result.message))
        else:
            written = written_of(scope, topic_name, entry, result)
            answer.successes.append(WrittenEntry(id=entry.id, **dict(written)))
    return answer
