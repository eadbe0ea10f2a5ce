"""`tailrace broker list|log-dirs|move-replicas|drain|unregister`; `tailrace broker [options]` runs one (command.py)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import PurePosixPath
from typing import Annotated

import typer

from tailrace.cli.daily.connection import Bootstrap, Json, table
from tailrace.cli.daily.nodes import Broker, Nodes, nodes
from tailrace.cli.daily.reassignments import Rate, as_text, move
from tailrace.cli.daily.refusals import RefusedError
from tailrace.metadata.moves import Plan, drained

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="List brokers, empty one, forget one. With other arguments: run one broker (`tailrace broker --set …`).",
)
BrokerId = Annotated[int, typer.Argument(help="broker id")]
_DRAIN_ROUNDS = 10


@app.command("list")
def list_brokers(as_data: Json = False, bootstrap: Bootstrap = None) -> None:
    """Every registered broker with its state, and how many partitions it leads and holds."""
    with nodes(bootstrap) as cluster:
        brokers, partitions = cluster.brokers(), cluster.partitions()
    led = Counter(part.leader_id for part in partitions.values())
    held = Counter(node for part in partitions.values() for node in part.replica_nodes)
    synced = Counter(node for part in partitions.values() for node in part.isr_nodes)
    rows = [
        {
            "broker_id": broker.broker_id,
            "address": f"{broker.host}:{broker.port}",
            "rack": broker.rack,
            "state": "fenced" if broker.fenced else "live",
            "leaders": led[broker.broker_id],
            "replicas": held[broker.broker_id],
            "in_sync": synced[broker.broker_id],
        }
        for broker in brokers
    ]
    if as_data:
        typer.echo(json.dumps(rows))
        return
    table(
        ("broker", "address", "rack", "state", "leaders", "replicas", "in sync"),
        [tuple("" if value is None else value for value in row.values()) for row in rows],
    )


@app.command("log-dirs")
def log_dirs(as_data: Json = False, bootstrap: Bootstrap = None) -> None:
    """Every live broker's log directories: what they hold, how much room is left, which are offline or too full."""
    with nodes(bootstrap) as cluster:
        rows = [
            {
                "broker_id": found.broker_id,
                "log_dir": found.path,
                "state": "offline" if found.error_code else "online",
                "producers": found.level and found.level.producers,
                "partitions": found.partitions,
                "moving_here": found.moving_here,
                "size_bytes": found.size_bytes,
                "usable_bytes": found.usable_bytes,
                "total_bytes": found.total_bytes,
            }
            for found in cluster.log_dirs()
        ]
    if as_data:
        typer.echo(json.dumps(rows))
        return
    table(
        ("broker", "log dir", "state", "producers", "partitions", "moving here", "bytes", "usable", "total"),
        [tuple("" if value is None else value for value in row.values()) for row in rows],
    )


@app.command("move-replicas")
def move_replicas(
    broker_id: BrokerId,
    log_dir: Annotated[str, typer.Argument(help="one of the broker's log.dirs")],
    topics: Annotated[list[str], typer.Option("--topic", "-t", help="may be repeated")],
    indexes: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="of every topic named; default: all on the broker")
    ] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Move a broker's replicas to another of its log directories, while they serve; `log-dirs` shows the progress."""
    with nodes(bootstrap) as cluster:
        broker = next((one for one in cluster.brokers() if one.broker_id == broker_id and not one.fenced), None)
        if broker is None:
            raise RefusedError(f"broker {broker_id} is not live")
        wanted = [
            (name, index)
            for (name, index), part in sorted(cluster.partitions(topics).items())
            if broker_id in part.replica_nodes and (not indexes or index in indexes)
        ]
        if not wanted:
            raise RefusedError(f"broker {broker_id} has no replica of these")
        there = str(PurePosixPath(log_dir))  # without the slash that a shell completes it by
        cluster.move_to_log_dir(broker, there, wanted)
        moves = "1 replica of broker {} moves" if len(wanted) == 1 else f"{len(wanted)} replicas of broker {{}} move"
        typer.echo(f"{moves.format(broker_id)} to {there}, or {'is' if len(wanted) == 1 else 'are'} there")


@app.command()
def drain(
    broker_id: BrokerId,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="one replica fewer where no other broker can take it")
    ] = False,
    rate: Rate = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print the plan as `tailrace reassign` reads it")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Move every replica off a broker, with progress, and leave it empty."""
    with nodes(bootstrap) as cluster:
        if dry_run:
            typer.echo(as_text(_plan(cluster, broker_id, shrink)[1]))
            return
        for _ in range(_DRAIN_ROUNDS):  # a topic that is created meanwhile may be placed on it
            before, plan = _plan(cluster, broker_id, shrink)
            if not plan:
                break
            move(cluster, before, plan, rate)
        else:
            raise RefusedError(f"broker {broker_id} is given new partitions faster than they are moved away")
    typer.echo(
        f"broker {broker_id} holds no partition. It still runs and may get new ones: stop it, "
        f"then `tailrace broker unregister {broker_id}`."
    )


def _plan(cluster: Nodes, broker_id: int, shrink: bool) -> tuple[Plan, Plan]:
    """The replicas as they are, and those that must change."""
    brokers = cluster.brokers()
    _known(brokers, broker_id)
    moving = cluster.reassignments()
    replicas = {
        key: tuple(
            node for node in part.replica_nodes if key not in moving or node not in moving[key].removing_replicas
        )
        for key, part in cluster.partitions().items()
    }
    racks = {broker.broker_id: broker.rack for broker in brokers if not broker.fenced}
    return replicas, drained(replicas, racks, broker_id, shrink=shrink)


def _known(brokers: list[Broker], broker_id: int) -> Broker:
    for broker in brokers:
        if broker.broker_id == broker_id:
            return broker
    raise RefusedError(f"broker {broker_id} is not registered; there are {[broker.broker_id for broker in brokers]}")


@app.command()
def unregister(
    broker_id: BrokerId,
    force: Annotated[bool, typer.Option("--force", help="even if it runs or holds partitions")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Forget a broker that was drained and stopped."""
    with nodes(bootstrap) as cluster:
        broker = _known(cluster.brokers(), broker_id)
        holds = sum(broker_id in part.replica_nodes for part in cluster.partitions().values())
        if not force and not broker.fenced:
            raise RefusedError(f"broker {broker_id} runs: stop it first, or --force.")
        if not force and holds:
            raise RefusedError(
                f"broker {broker_id} holds {holds} partitions: `tailrace broker drain {broker_id}` first, or --force."
            )
        cluster.unregister(broker_id)
    typer.echo(f"broker {broker_id} is forgotten")
