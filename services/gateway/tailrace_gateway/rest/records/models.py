"""Records to write, and what became of them, as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from tailrace_gateway.rest.models import Rows, Text, Wanted


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
