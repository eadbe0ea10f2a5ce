"""`tailrace group`: list, describe with lag, reset, delete."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, Json, counted, given, say, table
from tailrace.cli.daily.nodes import EARLIEST, LATEST, Nodes, nodes
from tailrace.cli.daily.refusals import RefusedError, Yes, confirm
from tailrace.errors import ErrorCode
from tailrace.kafka.described_groups import (
    CONSUMER,
    DescribedGroup,
    DescribedGroupMember,
    is_of_another_kind,
    of_classic,
    of_consumer,
)
from tailrace.kafka.lag import lag
from tailrace.metadata.moves import Partition, portions
from tailrace.net.address import Address
from tailrace.printable import printable
from tailrace.wire import messages as m

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Consumer groups, their members and their lag.",
)
Group = Annotated[str, typer.Argument(help="group id", callback=given)]
_OF_ANOTHER_KIND: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND})
_TARGETS: Final = {"earliest": EARLIEST, "latest": LATEST}


@app.command("list")
def list_groups(bootstrap: Bootstrap = None) -> None:
    """All groups with their state and type."""
    found = {}
    with nodes(bootstrap) as cluster:
        for _, _, answer in cluster.ask_each(m.ListGroupsRequest(states_filter=[], types_filter=[]), 5):
            found.update({row.group_id: (row.group_state, row.group_type, row.protocol_type) for row in answer.groups})
    table(("group", "state", "type", "protocol"), [(group, *rest) for group, rest in sorted(found.items())])


@app.command(short_help="Members with their partitions, committed offsets and lag.")
def describe(group: Group, as_data: Json = False, bootstrap: Bootstrap = None) -> None:
    """Each partition with its committed offset, its lag and the member that has it; members without partitions."""
    with nodes(bootstrap) as cluster:
        at = cluster.coordinator(group)
        described = _described(cluster, group, at)
        committed = _committed(cluster, group, at)
        owners = _owners(described.members)
        ends = cluster.offsets(_leaders(cluster, committed.keys() | owners.keys()), LATEST)
    rows = [_row(key, committed.get(key), ends.get(key), owners.get(key)) for key in sorted({*committed, *owners})]
    busy = {member.member_id for member in owners.values()}
    idle = [member for member in described.members if member.member_id not in busy]
    if as_data:
        say(json.dumps(_data(described, rows)))
        return
    kind = ", consumer protocol" if described.type == CONSUMER else ""
    say(f"{printable(group)}: {described.state}, {counted(len(described.members), 'member')}{kind}")
    if rows or not idle:
        table(
            ("topic", "partition", "committed", "end offset", "lag", "member", "client", "host"),
            [tuple("-" if value is None else value for value in row.values()) for row in rows],
        )
    if idle:
        table(
            ("member without partitions", "client", "host"),
            [(member.member_id, member.client_id, member.client_host) for member in idle],
        )


def _owners(members: Iterable[DescribedGroupMember]) -> dict[Partition, DescribedGroupMember]:
    """The member that has each partition."""
    return {key: member for member in members for key in member.partitions}


def _row(
    key: Partition, committed: int | None, end: int | None, owner: DescribedGroupMember | None
) -> dict[str, object]:
    """A partition in the REST API's names; None where there is no commit, no member, no topic or no leader."""
    return {
        "topic_name": key[0],
        "partition_id": key[1],
        "current_offset": committed,
        "log_end_offset": end,
        "lag": None if committed is None or end is None else lag(committed, end),
        "consumer_id": owner and owner.member_id,
        "client_id": owner and owner.client_id,
        "host": owner and owner.client_host,
    }


def _data(described: DescribedGroup, rows: list[dict[str, object]]) -> dict[str, object]:
    return {
        "consumer_group_id": described.group_id,
        "state": described.state,
        "type": described.type,
        "partition_assignor": described.assignor,
        "consumers": [
            {
                "consumer_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.client_host,
            }
            for member in described.members
        ],
        "partitions": rows,
    }


def _described(cluster: Nodes, group: str, at: Address) -> DescribedGroup:
    """The group; raises RefusedError if there is no such group (DescribeGroups v6 says so, KIP-1043)."""
    found: DescribedGroup | None = None
    asked = m.DescribeGroupsRequest(groups=[group])
    (row,) = cluster.ask(asked, 6, at, handled=_OF_ANOTHER_KIND).groups
    if row.group_state != "Dead":
        found = of_classic(row)
    elif is_of_another_kind(row.error_message):
        request = m.ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
        (row,) = cluster.ask(request, 1, at, handled=_OF_ANOTHER_KIND).groups
        found = of_consumer(row) if not row.error_code else None
    if found is None:
        raise RefusedError(f"{group}: no such group; `tailrace group list` names the groups")
    return found


def _committed(cluster: Nodes, group: str, at: Address) -> dict[Partition, int]:
    asked = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
    answer = cluster.ask(m.OffsetFetchRequest(groups=[asked], require_stable=False), 8, at)
    return {
        (topic.name, part.partition_index): part.committed_offset
        for row in answer.groups
        for topic in row.topics
        for part in topic.partitions
        if part.committed_offset >= 0
    }


def _leaders(cluster: Nodes, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Who leads each of them; nothing of those whose topic is gone."""
    topics = {topic.name for topic in cluster.ask(m.MetadataRequest(topics=None), 12).topics}
    names = sorted({name for name, _ in partitions} & topics)
    rows = cluster.partitions(names) if names else {}
    return {key: row.leader_id for key, row in rows.items() if key in partitions}


@app.command()
def reset(
    group: Group,
    to: Annotated[str, typer.Option(help="earliest or latest")] = "earliest",
    bootstrap: Bootstrap = None,
) -> None:
    """Move the committed offsets of a group without members."""
    if to not in _TARGETS:
        raise typer.BadParameter(f"--to {to}: expected earliest or latest")
    with nodes(bootstrap) as cluster:
        at = cluster.coordinator(group)
        if members := len(_described(cluster, group, at).members):
            text = counted(members, "member")
            raise RefusedError(f"{group} has {text}, and a member commits over a reset: stop its consumers first")
        committed = _committed(cluster, group, at)
        if not committed:
            raise RefusedError(f"{group} has committed no offset, so that there is nothing to reset")
        targets = cluster.offsets(_leaders(cluster, committed.keys()), _TARGETS[to])
        if missing := sorted(committed.keys() - targets.keys()):
            (name, index), more = missing[0], len(missing) - 1
            raise RefusedError(
                f"{name}-{index}{f' and {more} more' if more else ''}: nobody leads it, so that its offsets are unknown"
            )
        _commit(cluster, group, at, targets)
    what = "partition is" if len(targets) == 1 else "partitions are"
    say(f"{group}: {len(targets)} {what} at {to}")


def _commit(cluster: Nodes, group: str, at: Address, offsets: Mapping[Partition, int]) -> None:
    """As a client that is no member; the coordinator refuses it where there are any."""
    topic = m.OffsetCommitRequest.OffsetCommitRequestTopic
    row = topic.OffsetCommitRequestPartition
    for portion in portions(dict.fromkeys(offsets)):
        topics = [
            topic(
                name=name,
                partitions=[
                    row(partition_index=index, committed_offset=offsets[name, index], committed_metadata="")
                    for index, _ in rows
                ],
            )
            for name, rows in portion
        ]
        request = m.OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics)
        cluster.ask(request, 8, at)


@app.command()
def delete(group: Group, yes: Yes = False, bootstrap: Bootstrap = None) -> None:
    """Delete a group without members, and its offsets."""
    with nodes(bootstrap) as cluster:
        at = cluster.coordinator(group)
        confirm(f"Delete the group {printable(group)} and its committed offsets?", yes=yes)
        cluster.ask(m.DeleteGroupsRequest(groups_names=[group]), 2, at)
    say(f"deleted {printable(group)}")
