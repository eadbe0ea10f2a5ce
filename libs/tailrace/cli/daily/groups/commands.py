"""The commands of `tailrace group`: what kafka-consumer-groups does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, counted, given, say, table
from tailrace.cli.daily.groups import lag, reset
from tailrace.cli.daily.groups.cluster import GroupInCluster
from tailrace.cli.daily.nodes import nodes
from tailrace.cli.daily.output import cell, done, is_json, show
from tailrace.cli.daily.refusals import Yes, confirm
from tailrace.kafka.described_groups import CONSUMER, DescribedGroup, DescribedGroupMember, constant_case
from tailrace.kafka.lag import PartitionLag
from tailrace.printable import printable
from tailrace.wire import messages as m

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Consumer groups, their members and their lag.",
)
_OFFSET_MAX: Final = 2**63 - 1
_LISTED: Final = {"consumer_group_id": "group", "state": "state", "type": "type", "protocol_type": "protocol"}
_PARTITIONS: Final = {
    "topic_name": "topic",
    "partition_id": "partition",
    "current_offset": "committed",
    "log_end_offset": "end offset",
    "lag": "lag",
    "consumer_id": "member",
    "client_id": "client",
    "client_host": "host",
}
Group = Annotated[str, typer.Argument(help="group id", callback=given)]


@app.command("list")
def list_groups(bootstrap: Bootstrap = None) -> None:
    """All groups with their state and type."""
    found = {}
    with nodes(bootstrap) as cluster:
        for _, _, answer in cluster.ask_each(m.ListGroupsRequest(states_filter=[], types_filter=[]), 5):
            found.update({row.group_id: (row.group_state, row.group_type, row.protocol_type) for row in answer.groups})
    rows = [dict(zip(_LISTED, (group, *rest), strict=True)) for group, rest in sorted(found.items())]
    data = [row | {key: constant_case(str(row[key])) for key in ("state", "type")} for row in rows]
    show(rows, _LISTED, data=data)


@app.command(short_help="Members with their partitions, committed offsets and lag.")
def describe(group: Group, bootstrap: Bootstrap = None) -> None:
    """Each partition with its committed offset, its lag and the member that has it; members without partitions."""
    with nodes(bootstrap) as cluster:
        asked = GroupInCluster(cluster, group)
        described = asked.described()
        rows = asked.lags(described, ages=False)
    busy = {row.member.member_id for row in rows if row.member is not None}
    idle = [member for member in described.members if member.member_id not in busy]
    shown = [_row(row) for row in rows]
    show(shown, _PARTITIONS, data=_data(described, shown), text=lambda: _print(described, shown, idle))


def _print(
    described: DescribedGroup, rows: Sequence[Mapping[str, object]], idle: Sequence[DescribedGroupMember]
) -> None:
    kind = ", consumer protocol" if described.type == CONSUMER else ""
    say(f"{printable(described.group_id)}: {described.state}, {counted(len(described.members), 'member')}{kind}")
    if rows or not idle:
        table(
            tuple(_PARTITIONS.values()),
            [tuple(cell(value) for value in row.values()) for row in rows],
        )
    if idle:
        table(
            ("member without partitions", "client", "host"),
            [(member.member_id, member.client_id, member.client_host) for member in idle],
        )


def _row(row: PartitionLag) -> dict[str, object]:
    """A partition in the REST API's names; None where there is no commit, no member, no topic or no leader."""
    owner = row.member
    return {
        "topic_name": row.topic,
        "partition_id": row.partition,
        "current_offset": row.current_offset,
        "log_end_offset": row.log_end_offset,
        "lag": row.lag,
        "consumer_id": owner and owner.member_id,
        "client_id": owner and owner.client_id,
        "client_host": owner and owner.client_host,
    }


def _data(described: DescribedGroup, rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    return {
        "consumer_group_id": described.group_id,
        "state": constant_case(described.state),
        "type": described.type,
        "partition_assignor": described.assignor,
        "consumers": [
            {
                "consumer_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
            }
            for member in described.members
        ],
        "partitions": rows,
    }


@app.command("lag", short_help="How far a group is behind, in records and in seconds.")
def show_lag(
    group: Group,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="look again and again, until Ctrl-C")] = False,
    interval_s: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.1, max=3600, help="between two looks")
    ] = 2.0,
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="up to the last stable offset; default: the high watermark")
    ] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Each partition with its lag, and the age of the next record to read; with --watch how fast the lag grows.

    A lag is a distance of offsets: markers of transactions and records that compaction removed count, as in Kafka.
    """
    with nodes(bootstrap, lasting=watch) as cluster:
        looks = lag.looks(cluster, GroupInCluster(cluster, group), read_committed=read_committed)
        lag.show_looks(looks, 1 if not watch else None, lambda: cluster.pause(interval_s * 1000))


@app.command("reset", short_help="Move the committed offsets of a group without members.")
def reset_offsets(
    group: Group,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC[:0,1]", help="with its partitions; may be repeated"),
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--topic-regex", metavar="RE2", help="topics whose whole name matches")
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="all partitions that the group has committed offsets for; the default")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="the first offset of each log")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="the end of each log")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="what is committed; without a commit: the end")] = (
        False
    ),
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, max=_OFFSET_MAX, help="an offset")] = None,
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", min=-_OFFSET_MAX, max=_OFFSET_MAX, help="so many offsets on; back with a minus"),
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option("--to-datetime", metavar="TIME", help="the first record from 2026-11-28T09:30:00.000 on, in UTC"),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="PnDTnHnMnS", help="the first record as old as that")
    ] = None,
    from_file: Annotated[
        str | None, typer.Option("--from-file", metavar="FILE", help="rows topic,partition,offset, as --export prints")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute/--dry-run", help="commit the plan, or only show it")] = False,
    export: Annotated[bool, typer.Option("--export", help="print the plan as CSV, for --from-file")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show a plan for the committed offsets, and commit it with --execute. The options are kafka-consumer-groups.sh's.

    An offset outside of a log becomes the nearest end of it. A group without commits can be reset, too.
    """
    if export and is_json():
        raise typer.BadParameter("--export or --output json")
    with nodes(bootstrap) as cluster:
        wish = reset.parse(
            {
                "--to-earliest": to_earliest or None,
                "--to-latest": to_latest or None,
                "--to-current": to_current or None,
                "--to-offset": to_offset,
                "--shift-by": shift_by,
                "--to-datetime": to_datetime,
                "--by-duration": by_duration,
                "--from-file": from_file,
            },
            cluster.clock.wall_ms(),
        )
        scope = reset.Scope(topics or [], pattern, all_topics=all_topics)
        reset.run(cluster, GroupInCluster(cluster, group), wish, scope, execute=execute, export=export)


@app.command()
def delete(group: Group, yes: Yes = False, bootstrap: Bootstrap = None) -> None:
    """Delete a group without members, and its offsets."""
    with nodes(bootstrap) as cluster:
        asked = GroupInCluster(cluster, group)
        confirm(f"Delete the group {printable(group)} and its committed offsets?", yes=yes)
        asked.delete()
    done(f"deleted {printable(group)}", consumer_group_id=group)
