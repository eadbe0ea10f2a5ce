"""Where a partition's log begins and ends, and the deletion of records before an offset (KIP-107)."""

from __future__ import annotations

from collections import defaultdict
from http import HTTPStatus
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from tailrace.errors import ErrorCode
from tailrace.reading.start import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from tailrace.wire.messages import DeleteRecordsRequest
from tailrace_gateway.rest.errors import check, plain
from tailrace_gateway.rest.groups.kafka import log_offsets
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.models import Int64, Listing, Metadata, Rows, Wanted
from tailrace_gateway.rest.reading.models import PARTITIONS_MAX
from tailrace_gateway.rest.scope import ClusterScope, InCluster
from tailrace_gateway.rest.topics.routes import partition_or_404

router = APIRouter(route_class=LimitedRoute, prefix="/v3/clusters/{cluster_id}/topics/{topic_name}", tags=["Records"])
_DELETE_RECORDS_VERSION: Final = 2
_TIMEOUT_MS: Final = 8_000  # less than a broker is waited for


class PartitionOffset(BaseModel):
    """The first offset of a log, the next one, and the one that read_committed readers stop at."""

    kind: Literal["TailracePartitionOffset"] = "TailracePartitionOffset"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    first_offset: int
    last_stable_offset: int
    end_offset: int


class DeletionPoint(Wanted):
    """Records of a partition before the offset are to be deleted; -1: all."""

    partition_id: int = Field(ge=0)
    offset: Annotated[Int64, Field(ge=-1)]


class RecordDeletion(Wanted):
    partitions: Annotated[Rows[DeletionPoint], Field(min_length=1, max_length=PARTITIONS_MAX)]
    validate_only: bool = False


class DeletedRecords(BaseModel):
    """The first offset before, and the one that is there now, or would be."""

    kind: Literal["TailraceDeletedRecords"] = "TailraceDeletedRecords"
    cluster_id: str
    topic_name: str
    partition_id: int
    first_offset: int
    new_first_offset: int


@router.get("/partitions/{partition_id}/offset")
async def get_partition_offset(scope: InCluster, topic_name: str, partition_id: int) -> PartitionOffset:
    """Describes where a partition's log begins and ends."""
    partition_or_404(scope, topic_name, partition_id)
    key = (topic_name, partition_id)
    first = await log_offsets(scope.backend, [key], EARLIEST_TIMESTAMP)
    stable = await log_offsets(scope.backend, [key], LATEST_TIMESTAMP, read_committed=True)
    end = await log_offsets(scope.backend, [key], LATEST_TIMESTAMP)
    return PartitionOffset(
        metadata=scope.metadata("topics", topic_name, "partitions", partition_id, "offset"),
        cluster_id=scope.cluster_id,
        topic_name=topic_name,
        partition_id=partition_id,
        first_offset=first[key],
        last_stable_offset=stable[key],
        end_offset=end[key],
    )


@router.post("/records:delete", response_model=Listing[DeletedRecords])
async def delete_records(scope: InCluster, topic_name: str, wanted: RecordDeletion) -> Response:
    """Deletes the records of partitions before an offset; with validate_only nothing happens."""
    offsets = {row.partition_id: row.offset for row in wanted.partitions}
    if len(offsets) < len(wanted.partitions):
        raise plain(HTTPStatus.BAD_REQUEST, "Bad Request: partitions: one row for each partition.")
    for index in offsets:
        partition_or_404(scope, topic_name, index)
    keys = [(topic_name, index) for index in offsets]
    first = await log_offsets(scope.backend, keys, EARLIEST_TIMESTAMP)
    end = await log_offsets(scope.backend, keys, LATEST_TIMESTAMP)
    beyond = [index for index, offset in offsets.items() if offset > end[topic_name, index]]
    if beyond:
        at_most = f"{topic_name}-{beyond[0]} ends at {end[topic_name, beyond[0]]}."
        raise plain(HTTPStatus.BAD_REQUEST, f"Bad Request: offset: {at_most}")
    now = {index: max(first[topic_name, index], offset) for index, offset in offsets.items()}
    now.update({index: end[topic_name, index] for index, offset in offsets.items() if offset < 0})
    if not wanted.validate_only:
        now = await _deleted(scope, topic_name, offsets)
    rows = (
        DeletedRecords(
            cluster_id=scope.cluster_id,
            topic_name=topic_name,
            partition_id=index,
            first_offset=first[topic_name, index],
            new_first_offset=offset,
        )
        for index, offset in sorted(now.items())
    )
    return await scope.listed("TailraceDeletedRecordsList", ("topics", topic_name, "records:delete"), rows)


async def _deleted(scope: ClusterScope, name: str, offsets: dict[int, int]) -> dict[int, int]:
    """The new first offsets; each leader is asked once."""
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    by_leader: dict[int, list[DeleteRecordsRequest.DeleteRecordsTopic.DeleteRecordsPartition]] = defaultdict(list)
    for index, offset in offsets.items():
        row = topic.DeleteRecordsPartition(partition_index=index, offset=offset)
        by_leader[scope.backend.leader(name, index)].append(row)
    found = {}
    for leader, rows in sorted(by_leader.items()):
        request = DeleteRecordsRequest(topics=[topic(name=name, partitions=rows)], timeout_ms=_TIMEOUT_MS)
        answer = await scope.backend.ask_broker(leader, request, _DELETE_RECORDS_VERSION)
        for part in (part for one in answer.topics for part in one.partitions):
            check(part.error_code, f"{name}-{part.partition_index}: {ErrorCode(part.error_code).name}")
            found[part.partition_index] = part.low_watermark
    return found
