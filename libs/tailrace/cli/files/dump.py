"""`tailrace dump-log FILE...`: what the files of a log directory hold, in words or as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tailrace.cli.daily.connection import say
from tailrace.cli.daily.output import row as show_row
from tailrace.inspect.decoders import Row
from tailrace.inspect.dump import UnknownFile, rows

DAMAGED, REFUSED = 1, 2


def dump_log(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE...", help="segments, indexes, snapshots, checkpoints")],
    deep: Annotated[bool, typer.Option("--deep", help="every record, not only the batches")] = False,
) -> None:
    """Show what files of a log directory hold, Tailrace's or Apache Kafka's; status 1 if something is damaged.

    Every figure of kafka-dump-log.sh is here; --deep is its --print-data-log and its decoders.
    Whether indexes agree with their segments (--verify-index-only) says verify-log.
    """
    damaged = False
    for path in paths:
        try:
            found = rows(path, deep=deep)
        except UnknownFile as refusal:
            say(f"{refusal}.", err=True)
            raise typer.Exit(REFUSED) from None
        except OSError as error:
            say(f"{path} cannot be read: {error.strerror}.", err=True)
            raise typer.Exit(REFUSED) from None
        for row in found:
            damaged = damaged or row["row"] == "damage"
            show_row(row, line(row))
    if damaged:
        raise typer.Exit(DAMAGED)


def line(row: Row) -> str:
    """One row for a person."""
    match row["row"]:
        case "file":
            return f"{row['path']}: {row['kind']}, {row['bytes']} bytes"
        case "damage":
            return f"  DAMAGED at {row['position']}: {row['what']}"
        case "batch":
            return f"  {' '.join(_batch(row))}"
        case "record":
            return f"    {' '.join(_record(row))}"
    return "  " + "  ".join(f"{_name(key)} {_value(key, value)}" for key, value in row.items() if key != "row")


def _batch(row: Row) -> Iterator[str]:
    yield f"offsets {row['base_offset']}..{row['last_offset']}"
    yield f"({row['records']} record{'s' * (row['records'] != 1)}), epoch {row['leader_epoch']},"
    if row["producer_id"] >= 0:
        yield f"producer {row['producer_id']}/{row['producer_epoch']} from sequence {row['base_sequence']},"
    yield "LogAppendTime" if row["timestamp_type"] == "LogAppendTime" else "up to"
    yield f"{_time(row['max_timestamp'])},"
    yield from (f"{mark}," for mark in ("transactional", "control") if row[mark])
    if row["delete_horizon_timestamp"] is not None:
        yield f"delete horizon {_time(row['delete_horizon_timestamp'])},"
    if row["compression"] != "none":
        yield f"{row['compression']},"
    yield f"{row['bytes']} bytes at {row['position']}, CRC {row['crc']:08x} {'ok' if row['valid'] else 'WRONG'}"


def _record(row: Row) -> Iterator[str]:
    yield f"{row['offset']}  {_time(row['timestamp'])} "
    if "marker" in row:
        yield row["marker"]
        if "coordinator_epoch" in row:
            yield f"of coordinator epoch {row['coordinator_epoch']}"
        return
    if "decoded" in row:
        decoded = dict(row["decoded"])
        yield str(decoded.pop("type"))
        yield from (f"{key}={value}" for key, value in decoded.items())
    else:
        yield f"key {json.dumps(row['key'], ensure_ascii=False)}"
        yield f"value {json.dumps(row['value'], ensure_ascii=False)}"
    if "headers" in row:
        yield f"headers {json.dumps(row['headers'], ensure_ascii=False)}"
    if "headers_left_out" in row:
        yield f"and {row['headers_left_out']} more"


def _name(key: str) -> str:
    return key.replace("_", " ")


def _value(key: str, value: Any) -> str:
    return _time(value) if key.endswith("timestamp") else str(value)


def _time(timestamp_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(timestamp_ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03}Z"
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
