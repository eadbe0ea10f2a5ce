"""What one file of a log directory holds, as rows of plain values: for `tailrace dump-log`.

A row has a "row" that names what it is. Damage is a row, too, and the last one where nothing can be read on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Any, Final

from tailrace.errors import ApiError
from tailrace.inspect import files
from tailrace.inspect.decoders import Row, decoder_for
from tailrace.kafka.ids import format_uuid
from tailrace.kafka.topics import CLUSTER_METADATA_TOPIC
from tailrace.log.directory.checkpoint_copies import decode_copy
from tailrace.log.filesystem import checkpoints
from tailrace.log.producers import state
from tailrace.log.segment import transactions
from tailrace.records.batch import HEADER_SIZE, MAGIC, BatchHeader, Bytes, read_header, validate
from tailrace.records.record import CutHeaders, Record, iterate

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_MARKER: Final = Struct(">hh")
_SUM: Final = Struct(">I")
_MOST_HEADERS: Final = 1000  # of a record that are shown: it may have millions
_OLD: Final = "only record batches of magic 2 are read, as Kafka writes them since 0.11; this is magic"


class UnknownFile(ValueError):
    """A file of a name that no broker writes; the text is a sentence."""


def rows(path: Path, *, deep: bool = False) -> Iterator[Row]:
    """The rows of a file; deep: with every record of a segment. UnknownFile and OSError are raised at once."""
    kind = files.kind_of(path.name)
    if kind is None:
        known = ", ".join([*files.BY_SUFFIX, *files.BY_NAME])
        raise UnknownFile(f"{path} is no file of a log: the name must be one of, or end in one of {known}")
    data = files.content(path)
    return _read(kind, path, data, deep)


def _read(kind: str, path: Path, data: Bytes, deep: bool) -> Iterator[Row]:
    yield {"row": "file", "path": str(path), "kind": kind, "bytes": len(data)}
    if kind in ("segment", "metadata snapshot"):
        yield from _segment(path, data, deep)
        return
    try:
        yield from _READERS[kind](path, data)
    except (ValueError, ApiError) as error:
        yield damage(0, str(error))


def damage(position: int, what: str) -> Row:
    """The row that says what is wrong and where."""
    return {"row": "damage", "position": position, "what": what}


def _segment(path: Path, data: Bytes, deep: bool) -> Iterator[Row]:
    place = files.partition_of(path.absolute().parent)
    decode = decoder_for(place[0]) if place else None
    if path.name == "bootstrap.checkpoint":
        decode = decoder_for(CLUSTER_METADATA_TOPIC)
    view, position = memoryview(data), 0
    while position < len(view):
        if len(view) - position < HEADER_SIZE:
            yield damage(position, f"{len(view) - position} bytes at the end are no whole batch")
            return
        header = read_header(view, position)
        end = position + header.size_bytes
        if header.size_bytes < HEADER_SIZE or end > len(view):
            what = f"a batch of {header.size_bytes} bytes does not fit the file"
            yield damage(position, what if header.magic == MAGIC else f"{_OLD} {header.magic}")
            return
        batch = view[position:end]
        row = _batch(header, position)
        try:
            validate(batch)
        except ApiError as error:
            row["valid"] = False
            yield row
            yield damage(position, error.message or "the batch is damaged")
        else:
            yield row
            if deep or header.is_control:
                yield from _records(header, batch, position, decode)
        position = end


def _batch(header: BatchHeader, position: int) -> Row:
    try:
        codec = header.codec.name.lower()
    except ApiError:
        codec = "unknown"
    return {
        "row": "batch",
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "position": position,
        "bytes": header.size_bytes,
        "leader_epoch": header.partition_leader_epoch,
        "compression": codec,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "delete_horizon_timestamp": header.base_timestamp if header.has_delete_horizon else None,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": _last_sequence(header),
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc,
        "valid": True,
    }


def _last_sequence(header: BatchHeader) -> int:
    if header.base_sequence < 0:
        return -1
    return state.last_sequence(header.base_sequence, header.last_offset_delta)


def _records(
    header: BatchHeader, batch: memoryview, position: int, decode: Callable[[Record], Row] | None
) -> Iterator[Row]:
    try:
        for record in iterate(batch, most_headers=_MOST_HEADERS):
            row: Row = {"row": "record", "offset": record.offset, "timestamp": record.timestamp}
            row |= {"key_bytes": _size(record.key), "value_bytes": _size(record.value)}
            if header.is_control:
                row |= {"marker": _marker(record.key or b"")}
                if ended := transactions.read_marker(batch, header):
                    row |= {"coordinator_epoch": ended.coordinator_epoch}
            elif decode is not None:
                row |= {"decoded": decode(record)}
            else:
                row |= {"key": _text(record.key), "value": _text(record.value)}
            if record.headers:
                row["headers"] = [[key, _text(value)] for key, value in record.headers]
            if isinstance(record.headers, CutHeaders):
                row["headers_left_out"] = record.headers.left_out
            yield row
    except ApiError as error:
        yield damage(position, error.message or "the records are damaged")


def _size(data: bytes | None) -> int | None:
    return None if data is None else len(data)


def _marker(key: bytes) -> str:
    names = {0: "abort", 1: "commit", 2: "leader change", 3: "snapshot header", 4: "snapshot footer"}
    names |= {5: "KRaft version", 6: "KRaft voters", 10_004: "shard barrier"}
    if len(key) < _MARKER.size:
        return "damaged"
    kind = _MARKER.unpack_from(key)[1]
    return names.get(kind, f"control type {kind}")


def _text(data: bytes | None) -> str | None:
    """UTF-8 where it is that and can be printed, else hexadecimal."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()
    return text if text.isprintable() else "0x" + data.hex()


def _offset_index(path: Path, data: Bytes) -> Iterator[Row]:
    base = files.base_offset(path)
    for offset, position in _entries(_OFFSET_ENTRY, data):
        yield {"row": "entry", "offset": base + offset, "position": position}
    yield from _rest(_OFFSET_ENTRY, data)


def _time_index(path: Path, data: Bytes) -> Iterator[Row]:
    base = files.base_offset(path)
    for timestamp, offset in _entries(_TIME_ENTRY, data):
        yield {"row": "entry", "timestamp": timestamp, "offset": base + offset}
    yield from _rest(_TIME_ENTRY, data)


def _entries(entry: Struct, data: Bytes) -> Iterator[tuple[Any, ...]]:
    """Up to the zeros that Apache Kafka leaves at the end of an index it is still writing."""
    whole = memoryview(data)[: len(data) - len(data) % entry.size]
    end = len(bytes(whole).rstrip(b"\0"))
    return entry.iter_unpack(whole[: -(-end // entry.size) * entry.size])


def _rest(entry: Struct, data: Bytes) -> Iterator[Row]:
    if len(data) % entry.size:
        yield damage(len(data) - len(data) % entry.size, "the file ends within an entry")


def _transaction_index(_path: Path, data: Bytes) -> Iterator[Row]:
    for entry in transactions.decode(data):
        yield {"row": "aborted", **entry._asdict()}


def _snapshot(_path: Path, data: Bytes) -> Iterator[Row]:
    for producer_id, entry in state.decode_snapshot(bytes(data)).entries.items():
        last = entry.batches[-1] if entry.batches else None
        yield {
            "row": "producer",
            "producer_id": producer_id,
            "producer_epoch": entry.producer_epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_txn_first_offset": entry.current_txn_first_offset,
            "last_timestamp": entry.last_timestamp,
            "first_sequence": (last.last_sequence - last.offset_delta) & state.MAX_SEQUENCE if last else -1,
            "last_sequence": last.last_sequence if last else -1,
            "last_offset": last.last_offset if last else -1,
            "offset_delta": last.offset_delta if last else 0,
        }


def _epochs(_path: Path, data: Bytes) -> Iterator[Row]:
    for epoch, offset in checkpoints.parse_epochs(bytes(data)):
        yield {"row": "epoch", "leader_epoch": epoch, "start_offset": offset}


def _offsets(_path: Path, data: Bytes) -> Iterator[Row]:
    for (topic, partition), offset in checkpoints.parse_offsets(bytes(data)).items():
        yield {"row": "offset", "topic": topic, "partition": partition, "offset": offset}


def _transaction_sums(_path: Path, data: Bytes) -> Iterator[Row]:
    for entry, (crc,) in enumerate(_SUM.iter_unpack(memoryview(data)[: len(data) - len(data) % _SUM.size])):
        yield {"row": "sum", "entry": entry, "crc32c": f"{crc:08x}"}
    yield from _rest(_SUM, data)


def _checkpoint_copy(path: Path, data: Bytes) -> Iterator[Row]:
    content = decode_copy(bytes(data))
    if content is None:
        raise ValueError("the copy has a wrong CRC-32C")
    yield from _offsets(path, content)


def _partition_metadata(_path: Path, data: Bytes) -> Iterator[Row]:
    yield {"row": "partition", "topic_id": format_uuid(checkpoints.parse_partition_metadata(bytes(data)))}


def _properties(_path: Path, data: Bytes) -> Iterator[Row]:
    for key, value in checkpoints.parse_properties(bytes(data)).items():
        yield {"row": "property", "key": key, "value": value}


def _clean_shutdown(_path: Path, data: Bytes) -> Iterator[Row]:
    yield {"row": "clean shutdown", **checkpoints.parse_clean_shutdown(bytes(data))._asdict()}


_READERS: Final[dict[str, Callable[[Path, Bytes], Iterator[Row]]]] = {
    "offset index": _offset_index,
    "time index": _time_index,
    "transaction index": _transaction_index,
    "producer snapshot": _snapshot,
    "leader epochs": _epochs,
    "offset checkpoint": _offsets,
    "transaction sums": _transaction_sums,
    "checkpoint copy": _checkpoint_copy,
    "partition metadata": _partition_metadata,
    "properties": _properties,
    "clean shutdown": _clean_shutdown,
}
