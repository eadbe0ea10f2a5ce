"""Producing records: Produce v12 with acks=all, one batch per partition, one request per leader."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from random import Random
from typing import NamedTuple

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import TopicImage
from tailrace.records.record import Record, build
from tailrace.records.timestamps import has_date
from tailrace.wire.messages import ProduceRequest
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.errors import RestError, as_rest_error, translate, unknown_topic
from tailrace_gateway.rest.records.models import NewRecord, RecordData
from tailrace_gateway.rest.records.partitioner import partition_for

PRODUCE_BY_NAME = 12  # v13 addresses topics by id
ACKS_ALL = -1
TIMEOUT_MS = 10_000


class RecordPosition(NamedTuple):
    """Where a record is now."""

    partition: int
    offset: int
    timestamp_ms: int
    record: Record


def bad_record(message: str) -> RestError:
    """400 for a record that can't be understood."""
    return RestError(HTTPStatus.BAD_REQUEST, int(HTTPStatus.BAD_REQUEST), f"Bad Request: {message}")


def to_bytes(data: RecordData | None) -> bytes | None:
    """A key or value as bytes; null stays null."""
    if data is None or data.data is None:
        return None
    if data.type == "JSON":
        return _utf8(_json(data.data))
    if not isinstance(data.data, str):
        raise bad_record(f"{data.type} data is a JSON string.")
    return from_base64(data.data) if data.type == "BINARY" else _utf8(data.data)


def _json(data: object) -> str:
    try:
        return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError:  # Python reads NaN, and makes infinity of 1e999
        raise bad_record("Not JSON: a number that is none.") from None


def _utf8(text: str) -> bytes:
    """Refuses half a surrogate pair, which JSON can say."""
    try:
        return text.encode()
    except UnicodeEncodeError as wrong:
        raise bad_record(f"Not UTF-8: {wrong}.") from None


def from_base64(text: str) -> bytes:
    """Refuses what is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as wrong:
        raise bad_record(f"Not base64: {wrong}.") from None


def to_record(new: NewRecord, now_ms: int) -> Record:
    """A record without an offset yet; its timestamp is now unless it brings one."""
    headers = tuple((h.name, None if h.value is None else from_base64(h.value)) for h in new.headers)
    return Record(-1, _timestamp_ms(new.timestamp, now_ms), to_bytes(new.key), to_bytes(new.value), headers)


def _timestamp_ms(text: str | None, now_ms: int) -> int:
    if text is None:
        return now_ms
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as wrong:
        raise bad_record(f"{wrong}.") from None
    timestamp_ms = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    if not has_date(timestamp_ms):  # as Kafka's producers below, and nobody could be told it above
        raise bad_record(f"The timestamp {text} is not of the years 1970 to 9999.")
    return timestamp_ms


def choose_partition(topic: TopicImage, new: NewRecord, record: Record, random: Random) -> int:
    """The one asked for, or by key, or by lot; 404 for one that does not exist."""
    if new.partition_id is None:
        return partition_for(record.key, len(topic.partitions), random)
    if new.partition_id >= len(topic.partitions):
        raise unknown_topic()
    return new.partition_id


async def produce(
    backend: AdminBackend, topic: TopicImage, placed: Sequence[tuple[int, Record]]
) -> list[RecordPosition | RestError]:
    """Writes the records and says of each, in order, where it is or why not."""
    by_partition: dict[int, list[int]] = defaultdict(list)
    for index, (partition, _) in enumerate(placed):
        by_partition[partition].append(index)
    results: list[RecordPosition | RestError] = [translate(ErrorCode.UNKNOWN_SERVER_ERROR)] * len(placed)

    async def write(partition: int, indexes: list[int]) -> None:
        batch = [placed[index][1] for index in indexes]
        outcome = await _append(backend, topic.name, partition, batch)
        for position, index in enumerate(indexes):
            results[index] = outcome if isinstance(outcome, RestError) else outcome[position]

    await asyncio.gather(*(write(partition, indexes) for partition, indexes in by_partition.items()))
    return results


async def _append(
    backend: AdminBackend, name: str, partition: int, records: list[Record]
) -> list[RecordPosition] | RestError:
    row = ProduceRequest.TopicProduceData
    data = row.PartitionProduceData(index=partition, records=bytes(build(records)))
    request = ProduceRequest(
        transactional_id=None, acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, topic_data=[row(name=name, partition_data=[data])]
    )
    leader = backend.leader(name, partition)
    try:
        if leader < 0:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name}-{partition} has no leader.")
        (topic,) = (await backend.ask_broker(leader, request, PRODUCE_BY_NAME)).responses
    except (ApiError, ConnectionError, TimeoutError) as reason:
        return as_rest_error(reason)
    (answer,) = topic.partition_responses
    if answer.error_code:
        return translate(answer.error_code, answer.error_message)
    appended_ms = answer.log_append_time_ms
    return [
        RecordPosition(partition, answer.base_offset + n, appended_ms if appended_ms >= 0 else record.timestamp, record)
        for n, record in enumerate(records)
    ]
