"""A record as its resource. Plain dictionaries: a page has a thousand of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from tailrace.inspect.decoders import decoder_for
from tailrace.reading.decoders.plain import Encoding, shown
from tailrace.reading.reader import Gap
from tailrace.reading.window import FoundRecord
from tailrace.records.timestamps import has_date


class Encodings(NamedTuple):
    """How keys, values and the values of headers are shown."""

    key: Encoding = Encoding.AUTO
    value: Encoding = Encoding.AUTO
    header: Encoding = Encoding.AUTO


def record_of(topic: str, found: FoundRecord, encodings: Encodings) -> dict[str, object]:
    """In the form of models.ReadRecord."""
    partition, record = found
    decode = decoder_for(topic)
    return {
        "kind": "TailraceRecord",
        "topic_name": topic,
        "partition_id": partition,
        "offset": record.offset,
        "timestamp": _moment(record.timestamp),
        "timestamp_ms": record.timestamp,
        "key": _data(record.key, encodings.key),
        "value": _data(record.value, encodings.value),
        "headers": [{"name": name, "value": _data(value, encodings.header)} for name, value in record.headers],
        "decoded": None if decode is None else decode(record),
    }


def gap_of(gap: Gap) -> dict[str, object]:
    """In the form of models.OffsetGap."""
    return {"partition_id": gap.partition, "offset": gap.wanted, "next_offset": gap.next_offset}


def _data(content: bytes | None, encoding: Encoding) -> dict[str, object] | None:
    return None if content is None else shown(content, encoding)._asdict()


def _moment(timestamp_ms: int) -> str | None:
    if not has_date(timestamp_ms):
        return None
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
