"""What a reading over HTTP is asked for, and what it answers."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from tailrace.reading.decoders.plain import Encoding
from tailrace_gateway.rest.models import ListMetadata

RECORDS_MAX: Final = 1_000
BYTES_MAX: Final = 2 << 20
SCANNED_RECORDS_MAX: Final = 100_000
SCANNED_BYTES_MAX: Final = 64 << 20
PARTITIONS_MAX: Final = 256
WAIT_MS_MAX: Final = 20_000
_CURSOR_CHARS_MAX: Final = 12 << 10
_PLACE_CHARS_MAX: Final = 64


class RecordsQuery(BaseModel):
    """The query of GET …/records. A parameter that does not exist is refused."""

    model_config = ConfigDict(extra="forbid")

    from_: Annotated[
        str | None,
        Field(
            alias="from",
            min_length=1,
            max_length=_PLACE_CHARS_MAX,
            description="earliest (default of a page), latest (default of a stream), an offset, -N for the last N "
            "offsets of each partition, or s@TIME: milliseconds since 1970 or ISO 8601",
        ),
    ] = None
    until: Annotated[
        str | None,
        Field(min_length=1, max_length=_PLACE_CHARS_MAX, description="a time as in from; by default the page's own"),
    ] = None
    partitions: Annotated[
        str | None,
        Field(min_length=1, max_length=_CURSOR_CHARS_MAX, description="numbers and ranges, as 0,4-7; by default all"),
    ] = None
    cursor: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=_CURSOR_CHARS_MAX,
            description="PARTITION:OFFSET of each partition, from an earlier answer",
        ),
    ] = None
    limit: Annotated[int, Field(ge=1, le=RECORDS_MAX, description="records of the answer")] = 100
    max_bytes: Annotated[
        int, Field(ge=1, le=BYTES_MAX, description="of keys, values and headers; one record comes whatever its size")
    ] = 1 << 20
    max_scanned_records: Annotated[int, Field(ge=1, le=SCANNED_RECORDS_MAX, description="records to look at")] = 10_000
    max_scanned_bytes: Annotated[int, Field(ge=1, le=SCANNED_BYTES_MAX, description="bytes to look at")] = 16 << 20
    filter: Annotated[
        str | None,
        Field(min_length=1, description="an expression of CEL about key, value, headers, offset, partition, timestamp"),
    ] = None
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    key_encoding: Encoding = Encoding.AUTO
    value_encoding: Encoding = Encoding.AUTO
    header_encoding: Encoding = Encoding.AUTO
    wait_ms: Annotated[
        int, Field(ge=0, le=WAIT_MS_MAX, description="to wait for a record where there is none: long polling")
    ] = 0


class ReadData(BaseModel):
    """A key, value or header: text, any JSON, hexadecimal digits or base64, and its size in bytes."""

    type: Literal["STRING", "JSON", "HEX", "BINARY"]
    data: object
    size: int


class ReadHeader(BaseModel):
    name: str
    value: ReadData | None


class ReadRecord(BaseModel):
    """A record as it is in the log. A value of null is a tombstone."""

    kind: Literal["TailraceRecord"] = "TailraceRecord"
    topic_name: str
    partition_id: int
    offset: int
    timestamp: str | None  # null also outside of the years 1970 to 9999
    timestamp_ms: int
    key: ReadData | None
    value: ReadData | None
    headers: list[ReadHeader]
    decoded: dict[str, object] | None  # of the cluster's own topics: what the record says


class ReadPartition(BaseModel):
    """Where a page began in a partition, where the next one goes on, and the end that it knew; null: a stream."""

    partition_id: int
    start_offset: int
    next_offset: int
    end_offset: int | None


class OffsetGap(BaseModel):
    """Offsets that were to be read and are not in the log any more."""

    partition_id: int
    offset: int
    next_offset: int


class RecordList(BaseModel):
    """A page of records; metadata.next is the next one, null at the end of the log as the page knew it."""

    kind: Literal["TailraceRecordList"] = "TailraceRecordList"
    metadata: ListMetadata
    data: list[ReadRecord]
    cursor: str
    scanned_records: int
    scanned_bytes: int
    filter_failures: int | None  # records that the filter could not judge, which are left out; null without one
    first_filter_failure: str | None  # PARTITION:OFFSET and why
    partitions: list[ReadPartition]
    gaps: list[OffsetGap]
