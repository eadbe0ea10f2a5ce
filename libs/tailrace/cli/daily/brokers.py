"""`tailrace broker list|log-dirs|move-replicas|drain|scale-down|may-stop|unregister`: what operators do with brokers.

`tailrace broker [options]` runs one (command.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, counted, say
from tailrace.cli.daily.deadline import Deadline
from tailrace.cli.daily.moving import follow
from tailrace.cli.daily.nodes import Nodes, RegisteredBroker, nodes
from tailrace.cli.daily.output import done, show
from tailrace.cli.daily.reassignments import Rate, as_text, move
from tailrace.cli.daily.refusals import RefusedError
from tailrace.metadata.moves import Partition, Plan, drained

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="List brokers, empty one, forget one. With other arguments: run one broker (`tailrace broker --set …`).",
)

if TYPE_CHECKING:
    from tailrace.cli.daily.nodes import PartitionRow
BrokerId = Annotated[int, typer.Argument(help="broker id")]
_DRAIN_ROUNDS = 10
_LOOK_MS = 200
_LOOKS_MAX = 150  # half a minute for an election
_LISTED: Final = {
    "broker_id": "broker",
    "host": "host",
    "port": "port",
    "rack": "rack",
    "state": "state",
    "leader_count": "leaders",
    "replica_count": "replicas",
    "in_sync_count": "in sync",
}
_LOG_DIRS: Final = {
    "broker_id": "broker",
    "log_dir": "log dir",
    "state": "state",
    "producers": "producers",
    "partitions_count": "partitions",
    "moving_here_count": "moving here",
    "size_bytes": "bytes",
    "usable_bytes": "usable",
    "total_bytes": "total",
}


@app.command("list")
def list_brokers(bootstrap: Bootstrap = None) -> None:
    """Every registered broker with its state, and how many partitions it leads and holds."""
    with nodes(bootstrap) as cluster:
        brokers, partitions = cluster.brokers(), cluster.partitions()
    led = Counter(part.leader_id for part in partitions.values())
    held = Counter(node for part in partitions.values() for node in part.replica_nodes)
    synced = Counter(node for part in partitions.values() for node in part.isr_nodes)
    rows = [
        {
            "broker_id": broker.broker_id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "state": "fenced" if broker.fenced else "live",
            "leader_count": led[broker.broker_id],
            "replica_count": held[broker.broker_id],
            "in_sync_count": synced[broker.broker_id],
        }
        for broker in brokers
    ]
    show(rows, _LISTED)


@app.command("log-dirs")
def log_dirs(bootstrap: Bootstrap = None) -> None:
    """Every live broker's log directories: what they hold, how much room is left, which are offline or too full."""
    with nodes(bootstrap) as cluster:
        rows = [
            {
                "broker_id": found.broker_id,
                "log_dir": found.path,
                "state": "offline" if found.error_code else "online",
                "producers": found.level and found.level.producers,
                "partitions_count": found.partitions,
                "moving_here_count": found.moving_here,
                "size_bytes": found.size_bytes,
                "usable_bytes": found.usable_bytes,
                "total_bytes": found.total_bytes,
            }
            for found in cluster.log_dirs()
        ]
    show(rows, _LOG_DIRS)


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
        done(
            f"{moves.format(broker_id)} to {there}, or {'is' if len(wanted) == 1 else 'are'} there", broker_id=broker_id
        )


@app.command()
def drain(
    broker_id: BrokerId,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="one replica fewer where no other broker can take it")
    ] = False,
    leaders_only: Annotated[
        bool, typer.Option("--leaders-only", help="leave the replicas where they are, behind the others in each list")
    ] = False,
    rate: Rate = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print the plan as `tailrace reassign` reads it")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Move every leader, then every replica off a broker, with progress, and leave it empty."""
    with nodes(bootstrap, lasting=True) as cluster:
        if dry_run:
            if leaders_only:
                plan = _behind(cluster, broker_id, cluster.partitions())
            else:
                _, plan = _plan(cluster, {broker_id}, broker_id, shrink)
            say(as_text(plan))
            return
        deadline = cluster.deadline
        if leaders_only:
            if left := _hand_over(cluster, broker_id, deadline):
                raise RefusedError(f"broker {broker_id} still leads {left} of them")
            return
        _empty(cluster, {broker_id}, broker_id, shrink, rate, deadline)
    done(
        f"It still runs and may get new ones: stop it, then `tailrace broker unregister {broker_id}`.",
        broker_id=broker_id,
    )


@app.command("scale-down")
def scale_down(
    count: Annotated[int, typer.Argument(min=1, help="how many brokers stay: those with an id below it")],
    forget: Annotated[
        bool, typer.Option("--forget", help="unregister those that are stopped and hold nothing, and move nothing")
    ] = False,
    rate: Rate = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Drain every broker with an id of COUNT or more; afterwards, when they are stopped, --forget them."""
    with nodes(bootstrap, lasting=True) as cluster:
        leaving = {broker.broker_id for broker in cluster.brokers() if broker.broker_id >= count}
        deadline = cluster.deadline
        for broker_id in sorted(leaving, reverse=True):
            if forget:
                _forget(cluster, broker_id, deadline)
                continue
            _empty(cluster, leaving, broker_id, False, rate, deadline)
    if not leaving:
        done(f"no broker has an id of {count} or more")


@app.command("may-stop")
def may_stop(broker_id: BrokerId, bootstrap: Bootstrap = None) -> None:
    """Wait until all other replicas of a broker's partitions are in sync, so that it can stop and nobody notices."""
    with nodes(bootstrap, lasting=True) as cluster:
        _known(cluster.brokers(), broker_id)
        deadline = cluster.deadline
        said = -1
        while late := _other_late_partitions(cluster, broker_id):
            if len(late) != said:
                said = len(late)
                text = counted(said, "partition")
                say(f"waiting for the other replicas of {text} of broker {broker_id} to be in sync", err=True)
            deadline.check(f"{late[0][0]}-{late[0][1]} has replicas on other brokers that are not in sync")
            cluster.pause(_LOOK_MS)
    done(f"broker {broker_id} may stop: all other replicas of its partitions are in sync", broker_id=broker_id)


def _other_late_partitions(cluster: Nodes, broker_id: int) -> list[Partition]:
    """Partitions of a broker of which another replica is not in sync."""
    return [
        key
        for key, part in sorted(cluster.partitions().items())
        if broker_id in part.replica_nodes and set(part.replica_nodes) - {broker_id} - set(part.isr_nodes)
    ]


def _behind(cluster: Nodes, broker_id: int, partitions: Mapping[Partition, PartitionRow]) -> Plan:
    """The partitions that the broker leads and another replica can lead: those in sync first, the broker last."""
    _known(cluster.brokers(), broker_id)
    moving = cluster.reassignments()
    plan: Plan = {}
    for key, part in partitions.items():
        others = [node for node in part.replica_nodes if node != broker_id]
        if part.leader_id == broker_id and key not in moving and set(others) & set(part.isr_nodes):
            plan[key] = (*sorted(others, key=lambda node: node not in part.isr_nodes), broker_id)
    return plan


def _hand_over(cluster: Nodes, broker_id: int, deadline: Deadline) -> int:
    """Gives what the broker leads to other replicas that are in sync; returns how many of these it still leads.

    No record is copied.
    """
    now = cluster.partitions()
    plan = _behind(cluster, broker_id, now)
    if not plan:
        done(f"broker {broker_id} leads nothing that another broker could lead now", broker_id=broker_id)
        return 0
    changed = {key: wanted for key, wanted in plan.items() if tuple(now[key].replica_nodes) != wanted}
    if changed:
        move(cluster, {}, changed, None, tick=lambda: deadline.check("leaders are moved"))
    refused = {key: why for key, why in cluster.elect(plan, unclean=False).items() if why}
    left: list[Partition] = []
    for _ in range(_LOOKS_MAX):
        left = [key for key, part in cluster.partitions().items() if key in plan and part.leader_id == broker_id]
        late = [key for key in left if key not in refused]
        if not late:
            break
        deadline.check(f"{late[0][0]}-{late[0][1]} is still led by broker {broker_id}")
        cluster.pause(_LOOK_MS)
    for name, index in sorted(left):
        why = refused.get((name, index), "another broker was elected and does not lead yet")
        say(f"{name}-{index}: {why}", err=True)
    done(
        f"{len(plan) - len(left)} of {len(plan)} partitions that broker {broker_id} led have another leader",
        broker_id=broker_id,
    )
    return len(left)


def _empty(
    cluster: Nodes, leaving: Set[int], broker_id: int, shrink: bool, rate: int | None, deadline: Deadline
) -> None:
    """Moves the leaders and then every replica off a broker, to none of those that are leaving, too."""

    def tick() -> None:
        deadline.check("replicas are still on their way")

    for number in range(_DRAIN_ROUNDS):  # a topic that is created meanwhile may be placed on it
        before, plan = _plan(cluster, leaving, broker_id, shrink)
        if not plan:
            if not (begun := _on_their_way(cluster, broker_id)):
                break
            follow(cluster, begun, tick)
            continue
        if number == 0:  # after the plan: it gives each newcomer the place that the broker has now
            _hand_over(cluster, broker_id, deadline)
        move(cluster, before, plan, rate, tick=tick)
    else:
        raise RefusedError(f"broker {broker_id} is given new partitions faster than they are moved away")
    done(f"broker {broker_id} holds no partition", broker_id=broker_id)


def _on_their_way(cluster: Nodes, broker_id: int) -> Plan:
    """The moves off a broker that go on, as a command that ended before its moves leaves them: what they lead to."""
    return {
        key: tuple(node for node in row.replicas if node not in row.removing_replicas)
        for key, row in cluster.reassignments().items()
        if broker_id in row.removing_replicas
    }


def _forget(cluster: Nodes, broker_id: int, deadline: Deadline) -> None:
    """Unregisters a broker once it has stopped; refused if it holds anything."""
    said = False
    while not _known(cluster.brokers(), broker_id).fenced:
        if not said:
            said = True
            say(f"broker {broker_id} still runs; it is forgotten when it has stopped", err=True)
        deadline.check(f"broker {broker_id} still runs")
        cluster.pause(_LOOK_MS)
    _unregister(cluster, broker_id, force=False)


def _unregister(cluster: Nodes, broker_id: int, *, force: bool) -> None:
    """Forgets a broker; with force also one that runs or holds partitions."""
    broker = _known(cluster.brokers(), broker_id)
    holds = sum(broker_id in part.replica_nodes for part in cluster.partitions().values())
    forced = f"`tailrace broker unregister {broker_id} --force`"
    if not force and not broker.fenced:
        raise RefusedError(f"broker {broker_id} runs: stop it first, or {forced}.")
    if not force and holds:
        drain_first = f"`tailrace broker drain {broker_id}` first"
        raise RefusedError(f"broker {broker_id} holds {counted(holds, 'partition')}: {drain_first}, or {forced}.")
    cluster.unregister(broker_id)
    done(f"broker {broker_id} is forgotten", broker_id=broker_id)


def _plan(cluster: Nodes, leaving: Set[int], broker_id: int, shrink: bool) -> tuple[Plan, Plan]:
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
    racks = {one.broker_id: one.rack for one in brokers if not one.fenced and one.broker_id not in leaving}
    return replicas, drained(replicas, racks, broker_id, shrink=shrink)


def _known(brokers: list[RegisteredBroker], broker_id: int) -> RegisteredBroker:
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
        _unregister(cluster, broker_id, force=force)
