"""`tailrace topic offsets` and `tailrace topic delete-records`: where logs begin and end, and moving the beginning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

import typer

from tailrace.cli.daily.connection import Bootstrap, Topic
from tailrace.cli.daily.nodes import EARLIEST, LATEST, Nodes, nodes
from tailrace.cli.daily.output import show
from tailrace.cli.daily.refusals import RefusedError, Yes, confirm
from tailrace.metadata.moves import Partition, portions
from tailrace.reading.start import LATEST as AT_THE_END
from tailrace.reading.start import Start, first_offset, parse_start
from tailrace.wire.messages import DeleteRecordsRequest

_TIMEOUT_MS: Final = 30_000
_DELETE_RECORDS_VERSION: Final = 2
Partitions = Annotated[list[int] | None, typer.Option("--partition", "-p", min=0, help="may be repeated; default: all")]


_ENDS: Final = {"partition_id": "partition", "first_offset": "first offset", "end_offset": "end offset"}


class LogOffsets(NamedTuple):
    """A partition's first and next offset, and the one that was asked for."""

    first_offset: int
    end_offset: int
    offset: int


def offsets(
    name: Topic,
    partitions: Partitions = None,
    where: Annotated[
        str | None, typer.Option("--offset", "-o", metavar="WHERE", help="also the offset at -N, s@TIME ...")
    ] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """First and end offset of each partition, how many offsets are between them, and the one at a place."""
    start = AT_THE_END if where is None else _start(where)
    with nodes(bootstrap) as cluster:
        found = _offsets(cluster, _led(cluster, name, partitions), start)
    rows = [
        {
            "topic_name": name,
            "partition_id": index,
            "first_offset": one.first_offset,
            "end_offset": one.end_offset,
            "offsets": one.end_offset - one.first_offset,
            **({} if where is None else {"offset": one.offset}),
        }
        for (_, index), one in sorted(found.items())
    ]
    place = {} if where is None else {"offset": f"offset at {where}"}
    show(rows, {**_ENDS, "offsets": "offsets", **place})


def delete_records(
    name: Topic,
    before: Annotated[
        str, typer.Option("--before", metavar="WHERE", help="an offset, latest (all records), -N (all but N), s@TIME")
    ],
    partitions: Partitions = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would be deleted")] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Delete the records of each partition before a place; asks first on a terminal."""
    start = _start(before)
    with nodes(bootstrap) as cluster:
        led = _led(cluster, name, partitions)
        found = _offsets(cluster, led, start)
        doomed = sum(one.offset - one.first_offset for one in found.values())
        if not dry_run and doomed:
            confirm(f"Delete up to {doomed} records of {name}?", yes=yes)
            _delete(cluster, led, {key: one.offset for key, one in found.items() if one.offset > one.first_offset})
    rows = [
        {
            "topic_name": name,
            "partition_id": index,
            "first_offset": one.first_offset,
            "new_first_offset": one.offset,
            "end_offset": one.end_offset,
        }
        for (_, index), one in sorted(found.items())
    ]
    show(
        rows,
        {
            "partition_id": "partition",
            "first_offset": "first offset",
            "new_first_offset": "new first offset",
            "end_offset": "end offset",
        },
    )


def _start(where: str) -> Start:
    try:
        return parse_start(where)
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None


def _led(cluster: Nodes, name: str, wanted: list[int] | None) -> dict[Partition, int]:
    """The partitions and their leaders. Raises RefusedError for one that does not exist or has no leader."""
    parts = {key: part for key, part in cluster.partitions([name]).items() if not wanted or key[1] in wanted}
    missing = sorted(set(wanted or ()) - {index for _, index in parts})
    if missing:
        raise RefusedError(f"{name}-{missing[0]}: no such partition")
    if unled := [
        f"{topic}-{index}: no broker leads it" for (topic, index), part in parts.items() if part.leader_id < 0
    ]:
        raise RefusedError("\n".join(unled))
    return {key: part.leader_id for key, part in parts.items()}


def _offsets(cluster: Nodes, led: Mapping[Partition, int], start: Start) -> dict[Partition, LogOffsets]:
    first, end = (cluster.offsets(led, at) for at in (EARLIEST, LATEST))
    at = end if start.offset is not None else cluster.offsets(led, start.timestamp)
    if silent := [f"{topic}-{index}: its leader does not answer" for topic, index in led if (topic, index) not in at]:
        raise RefusedError("\n".join(silent))
    found = {}
    for (topic, index), offset in at.items():
        low, high = first[topic, index], end[topic, index]
        try:
            found[topic, index] = LogOffsets(low, high, first_offset(start, offset, low, high))
        except ValueError as outside:
            raise RefusedError(f"{topic}-{index}: {outside}") from None
    return found


def _delete(cluster: Nodes, led: Mapping[Partition, int], offsets: Mapping[Partition, int]) -> None:
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    part = topic.DeleteRecordsPartition
    live = cluster.addresses()
    for node in sorted({led[key] for key in offsets}):
        if node not in live:
            raise RefusedError(f"broker {node} is not live")
        for portion in portions(dict.fromkeys(key for key in offsets if led[key] == node)):
            rows = [
                topic(
                    name=name,
                    partitions=[part(partition_index=index, offset=offsets[name, index]) for index, _ in parts],
                )
                for name, parts in portion
            ]
            cluster.ask(DeleteRecordsRequest(topics=rows, timeout_ms=_TIMEOUT_MS), _DELETE_RECORDS_VERSION, live[node])
