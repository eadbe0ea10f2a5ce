"""Records to write, and what became of them, as JSON."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from tailrace_gateway.rest.models import Rows, Text, Wanted

RECORDS_MAX: Final = 1_000  # the gateway's event loop also relays data: what one request may make it parse is small


class RecordData(Wanted):
    """A key or value: text, any JSON, or base64."""

    type: Literal["STRING", "JSON", "BINARY"] = "JSON"
    data: object = None


class RecordHeader(Wanted):
    """A header; its value is base64."""

    name: Text
    value: str | None = None


class NewRecord(Wanted):
    partition_id: int | None = Field(default=None, ge=0)
    headers: Rows[RecordHeader] = Field(default=[])
    key: RecordData | None = None
    value: RecordData | None = None
    timestamp: str | None = None


class BatchEntry(NewRecord):
    """A record of a batch; the answer names it by its id."""

    id: Annotated[Text, Field(min_length=1, max_length=80)]


class RecordBatch(Wanted):
    entries: Annotated[Rows[BatchEntry], Field(min_length=1, max_length=RECORDS_MAX)]


class WrittenData(BaseModel):
    type: str
    size: int


class WrittenRecord(BaseModel):
    """What became of one record; error_code is 200, or that of a refusal, which then has only a message besides."""

    error_code: int = 200
    message: str | None = None
    cluster_id: str | None = None
    topic_name: str | None = None
    partition_id: int | None = None
    offset: int | None = None
    timestamp: str | None = None
    key: WrittenData | None = None
    value: WrittenData | None = None


class WrittenEntry(WrittenRecord):
    """What became of one record of a batch."""

    id: str


class RefusedEntry(BaseModel):
    id: str
    error_code: int
    message: str


class WrittenBatch(BaseModel):
    """The records that are written, and those that are not, each in order."""

    successes: list[WrittenEntry]
    failures: list[RefusedEntry]
