"""`tailrace group`: list, describe with lag, reset, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, given, table
from tailrace.cli.daily.nodes import EARLIEST, LATEST, Nodes, nodes
from tailrace.cli.daily.refusals import RefusedError
from tailrace.kafka.lag import lag
from tailrace.metadata.moves import Partition, portions
from tailrace.net.address import Address
from tailrace.wire import messages as m

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Consumer groups, their members and their lag.",
)
Group = Annotated[str, typer.Argument(help="group id", callback=given)]
_TARGETS: Final = {"earliest": EARLIEST, "latest": LATEST}


@app.command("list")
def list_groups(bootstrap: Bootstrap = None) -> None:
    """All groups with their state."""
    found = {}
    with nodes(bootstrap) as cluster:
        for _, _, answer in cluster.ask_each(m.ListGroupsRequest(states_filter=[]), 4):
            found.update({group.group_id: (group.group_state, group.protocol_type) for group in answer.groups})
    table(("group", "state", "protocol"), [(group, *rest) for group, rest in sorted(found.items())])


@app.command()
def describe(group: Group, bootstrap: Bootstrap = None) -> None:
    """Members, committed offsets and lag."""
    with nodes(bootstrap) as cluster:
        at = cluster.coordinator(group)
        described = _described(cluster, group, at)
        committed = _committed(cluster, group, at)
        ends = cluster.offsets(_leaders(cluster, committed), LATEST)
    typer.echo(f"{group}: {described.group_state}, {len(described.members)} members")
    table(
        ("topic", "partition", "committed", "end offset", "lag"),
        [(*key, offset, *_lag(offset, ends.get(key))) for key, offset in sorted(committed.items())],
    )
    if described.members:
        table(
            ("member", "client", "host"),
            [(member.member_id, member.client_id, member.client_host) for member in described.members],
        )


def _lag(committed: int, end: int | None) -> tuple[object, object]:
    """End offset and lag; a dash where the topic is gone or nobody leads the partition."""
    return ("-", "-") if end is None else (end, lag(committed, end))


def _described(cluster: Nodes, group: str, at: Address) -> Any:
    """The group's row; raises RefusedError if there is no such group (v6 says so, KIP-1043)."""
    for row in cluster.ask(m.DescribeGroupsRequest(groups=[group]), 6, at).groups:
        if row.group_id == group and row.group_state != "Dead":
            return row
    raise RefusedError(f"{group}: no such group; `tailrace group list` names the groups")


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


def _leaders(cluster: Nodes, partitions: Mapping[Partition, int]) -> dict[Partition, int]:
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
            told = "a member" if members == 1 else f"{members} members"
            raise RefusedError(f"{group} has {told}, and a member commits over a reset: stop its consumers first")
        committed = _committed(cluster, group, at)
        if not committed:
            raise RefusedError(f"{group} has committed no offset, so that there is nothing to reset")
        targets = cluster.offsets(_leaders(cluster, committed), _TARGETS[to])
        if missing := sorted(committed.keys() - targets.keys()):
            (name, index), more = missing[0], len(missing) - 1
            raise RefusedError(
                f"{name}-{index}{f' and {more} more' if more else ''}: nobody leads it, so that its offsets are unknown"
            )
        _commit(cluster, group, at, targets)
    what = "partition is" if len(targets) == 1 else "partitions are"
    typer.echo(f"{group}: {len(targets)} {what} at {to}")


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
def delete(group: Group, bootstrap: Bootstrap = None) -> None:
    """Delete a group without members, and its offsets."""
    with nodes(bootstrap) as cluster:
        cluster.ask(m.DeleteGroupsRequest(groups_names=[group]), 2, cluster.coordinator(group))
    typer.echo(f"deleted {group}")
