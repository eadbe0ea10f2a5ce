"""`tailrace topic`: list, create, describe, alter, delete; `producers` is in transactions/producers.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, Topic, pairs, say
from tailrace.cli.daily.nodes import EARLIEST, LATEST, NO_ID, Nodes, nodes
from tailrace.cli.daily.output import done, show
from tailrace.cli.daily.records.log_offsets import delete_records, offsets
from tailrace.cli.daily.refusals import RefusedError, Yes, confirm
from tailrace.cli.daily.transactions.producers import producers
from tailrace.wire import messages as m
from tailrace.wire.limits import pages

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="Topics and their partitions."
)
app.command("offsets", short_help="Where logs begin and end, and the offset at a time.")(offsets)
app.command("producers", short_help="Idempotent and transactional producers.")(producers)
Settings = Annotated[list[str] | None, typer.Option("--config", "-c", metavar="KEY=VALUE")]
_TIMEOUT_MS: Final = 30_000
_DESCRIBED: Final = {
    "partition_id": "partition",
    "leader_id": "leader",
    "leader_epoch": "leader epoch",
    "replica_ids": "replicas",
    "in_sync_replica_ids": "isr",
    "eligible_leader_replica_ids": "elr",
    "last_known_elr_ids": "last known elr",
    "offline_replica_ids": "offline",
    "first_offset": "first offset",
    "end_offset": "end offset",
    "offsets": "offsets",
    "size_bytes": "bytes",
}


@app.command("list")
def list_topics(bootstrap: Bootstrap = None) -> None:
    """Names of all topics; --output wide and json say more."""
    with nodes(bootstrap) as cluster:
        topics = sorted(cluster.ask(m.MetadataRequest(topics=None), 12).topics, key=lambda topic: str(topic.name))
    rows = [_listed(topic) for topic in topics]
    show(
        rows,
        {"topic_name": "topic"},
        text=lambda: say("\n".join(str(topic.name) for topic in topics)) if topics else None,
    )


def _listed(topic: m.MetadataResponse.MetadataResponseTopic) -> dict[str, object]:
    """In the REST API's names; the replication factor is that of the first partition."""
    return {
        "topic_name": topic.name,
        "topic_id": str(topic.topic_id),
        "is_internal": topic.is_internal,
        "replication_factor": len(topic.partitions[0].replica_nodes) if topic.partitions else 0,
        "partitions_count": len(topic.partitions),
    }


@app.command(short_help="Create a topic.")
def create(
    name: Topic,
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="-1: num.partitions")] = -1,
    replicas: Annotated[int, typer.Option("--replicas", "-r", help="-1: default.replication.factor")] = -1,
    config: Settings = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Create a topic; the broker's defaults hold for what is not given."""
    topic = m.CreateTopicsRequest.CreatableTopic
    row = topic(
        name=name,
        num_partitions=within(partitions, "--partitions", 32),
        replication_factor=within(replicas, "--replicas", 16),
        assignments=[],
        configs=[topic.CreatableTopicConfig(name=key, value=value) for key, value in pairs(config).items()],
    )
    with nodes(bootstrap) as cluster:
        cluster.ask(m.CreateTopicsRequest(topics=[row], timeout_ms=_TIMEOUT_MS, validate_only=False), 7)
    done(f"created {name}", topic_name=name)


@app.command(short_help="Partitions with replicas, offsets and sizes.")
def describe(name: Topic, bootstrap: Bootstrap = None) -> None:
    """Partitions with leader, replicas, in-sync and eligible leader replicas (KIP-966), offsets and bytes.

    Bytes are those of the leader's log. Offsets count markers of transactions and records that compaction removed, too.
    """
    with nodes(bootstrap) as cluster:
        found = dict(sorted(cluster.partitions([name]).items()))
        led = {key: part.leader_id for key, part in found.items()}
        first, last = (cluster.offsets(led, at) for at in (EARLIEST, LATEST))
        sizes = cluster.sizes(found)
    rows = []
    for key, part in found.items():
        low, high, size = first.get(key), last.get(key), sizes.get((part.leader_id, key))
        rows.append(
            {
                "topic_name": name,
                "partition_id": part.partition_index,
                "leader_id": None if part.leader_id < 0 else part.leader_id,
                "leader_epoch": part.leader_epoch,
                "replica_ids": list(part.replica_nodes),
                "in_sync_replica_ids": list(part.isr_nodes),
                "eligible_leader_replica_ids": list(part.eligible_leader_replicas or ()),
                "last_known_elr_ids": list(part.last_known_elr or ()),
                "offline_replica_ids": list(part.offline_replicas),
                "first_offset": low,
                "end_offset": high,
                "offsets": None if low is None or high is None else high - low,
                "size_bytes": size and size.size_bytes,
            }
        )
    show(rows, _DESCRIBED)


@app.command()
def alter(
    name: Topic, partitions: Annotated[int, typer.Option("--partitions", "-p")], bootstrap: Bootstrap = None
) -> None:
    """Give a topic more partitions."""
    row = m.CreatePartitionsRequest.CreatePartitionsTopic(
        name=name, count=within(partitions, "--partitions", 32), assignments=None
    )
    with nodes(bootstrap) as cluster:
        cluster.ask(m.CreatePartitionsRequest(topics=[row], timeout_ms=_TIMEOUT_MS, validate_only=False), 3)
    done(f"{name} has {partitions} partitions", topic_name=name, partitions_count=partitions)


@app.command(short_help="Delete topics and their records.")
def delete(
    names: Annotated[list[str], typer.Argument(help="topic names")],
    internal: Annotated[bool, typer.Option("--internal", help="also the cluster's own, as __consumer_offsets")] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Delete topics and their records; asks first on a terminal, and everywhere about the cluster's own."""
    state = m.DeleteTopicsRequest.DeleteTopicState
    with nodes(bootstrap) as cluster:
        own = _internal(cluster, names)
        for name in own:
            _confirm(name, internal=internal, yes=yes)
        if others := [name for name in dict.fromkeys(names) if name not in own]:
            confirm(f"Delete {', '.join(others)} and all records?", yes=yes)
        for some in pages(list(dict.fromkeys(names))):
            topics = [state(name=name, topic_id=NO_ID) for name in some]
            cluster.ask(m.DeleteTopicsRequest(topics=topics, timeout_ms=_TIMEOUT_MS), 6)
    done(f"deleted {', '.join(names)}", topic_names=names)


app.command("delete-records", short_help="Delete the records before an offset or a time.")(delete_records)


def _internal(cluster: Nodes, names: Sequence[str]) -> list[str]:
    """Those of the topics that the cluster says are its own; raises RefusedError if one is unknown."""
    found = []
    for some in pages(names):
        topics = [m.MetadataRequest.MetadataRequestTopic(name=name, topic_id=NO_ID) for name in some]
        answer = cluster.ask(m.MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
        found += [topic.name for topic in answer.topics if topic.is_internal]
    return found


def _confirm(name: str, *, internal: bool, yes: bool) -> None:
    """Every group loses its offsets with __consumer_offsets: one flag by mistake does not do that."""
    if not internal:
        raise RefusedError(
            f"{name} is the cluster's own topic: with it go what it keeps, as every group's offsets. --internal if you "
            "mean it."
        )
    if not yes and typer.prompt(f"Type {name} to delete it", err=True, default="", show_default=False) != name:
        raise RefusedError(f"{name} is not deleted")


def within(number: int, option: str, bits: int) -> int:
    """A number that the protocol's field holds; otherwise a usage error."""
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise typer.BadParameter(f"{option} {number}: too large")
    return number
