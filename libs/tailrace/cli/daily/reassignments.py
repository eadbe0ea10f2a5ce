"""`tailrace reassign generate|execute|verify|list|cancel`: what kafka-reassign-partitions does, on its JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, counted, say
from tailrace.cli.daily.moving import MoveProgress, follow, look
from tailrace.cli.daily.nodes import Nodes, nodes
from tailrace.cli.daily.output import done, show
from tailrace.cli.daily.refusals import RefusedError
from tailrace.cli.daily.throttles import RATES, REPLICAS, involved, throttle, unthrottle
from tailrace.metadata.moves import Partition, Plan, Replicas, spread

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="Move replicas between brokers."
)

if TYPE_CHECKING:
    from collections.abc import Container

    from tailrace.cli.daily.nodes import PartitionRow
PlanFile = Annotated[str, typer.Argument(metavar="FILE", help="a plan in Kafka's JSON; - is stdin")]
Rate = Annotated[
    int | None,
    typer.Option("--throttle", metavar="BYTES", min=1, help="per second and broker, for replicas not in sync"),
]
_NAMED_MAX = 8  # topics
_MOVES: Final = {
    "topic_name": "topic",
    "partition_id": "partition",
    "replica_ids": "replicas",
    "adding_replicas": "adding",
    "removing_replicas": "removing",
    "copied": "copied",
}
Wait = Annotated[bool, typer.Option("--wait", "-w", help="show progress until it is done")]


def as_json(plan: Mapping[Partition, Replicas]) -> dict[str, Any]:
    """Kafka's format."""
    rows = [{"topic": name, "partition": index, "replicas": list(plan[name, index])} for name, index in sorted(plan)]
    return {"version": 1, "partitions": rows}


def as_text(plan: Mapping[Partition, Replicas]) -> str:
    """The same as text, a line for each partition."""
    rows = ",\n".join(f"  {json.dumps(row)}" for row in as_json(plan)["partitions"])
    return f'{{"version": 1, "partitions": [\n{rows}\n]}}'


def parsed(text: str) -> Plan:
    """The plan in Kafka's format; raises RefusedError with a sentence."""
    try:
        rows = json.loads(text)["partitions"]
        return {
            (str(row["topic"]), _int32(row["partition"])): tuple(_int32(node) for node in row["replicas"])
            for row in rows
        }
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RefusedError(
            'not a plan: expected {"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [0, 1]}]}'
        ) from None


def _int32(value: Any) -> int:
    """Raises ValueError for what no partition or broker id can be."""
    number = int(value)
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError(value)
    return number


def _read(file: str) -> str:
    """A plan's text; a usage error where it cannot be read."""
    try:
        if file != "-":
            return Path(file).read_text(encoding="utf-8")
        return sys.stdin.read() if sys.stdin else ""
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{file} is no text") from None


def start(cluster: Nodes, plan: Mapping[Partition, Replicas | None]) -> None:
    """Starts reassignments (None cancels one). Raises RefusedError that names each partition that was refused."""
    refused = {key: why for key, why in cluster.reassign(plan).items() if why}
    if refused:
        raise RefusedError("\n".join(f"{name}-{index}: {why}" for (name, index), why in sorted(refused.items())))


def move(
    cluster: Nodes,
    before: Mapping[Partition, Replicas],
    plan: Plan,
    rate: int | None,
    *,
    wait: bool = True,
    started: Callable[[], None] = lambda: None,
    tick: Callable[[], None] = lambda: None,
) -> None:
    """Starts a plan, at most at so many bytes per second and broker, and with `wait` shows it to its end.

    tick is called while it waits; what it raises ends the wait. The moves go on then, and the throttle stays.
    """
    if rate is not None:
        throttle(cluster, before, plan, rate)
    try:
        start(cluster, plan)
    except RefusedError:
        if rate is not None:
            _unthrottle_unless_moving(cluster, before, plan)
        raise
    started()
    if not wait:
        return
    try:
        follow(cluster, plan, tick)
    except BaseException:  # the time limit, a lost connection, Ctrl-C: none of them ends a move
        if rate is not None:
            say(_stays(before, plan), err=True)
        raise
    if rate is not None:
        unthrottle(cluster, {name for name, _ in plan}, involved(before, plan))


def _unthrottle_unless_moving(cluster: Nodes, before: Mapping[Partition, Replicas], plan: Plan) -> None:
    """After a refusal: of a plan with several partitions the others may move."""
    if plan.keys() & cluster.reassignments().keys():
        say(_stays(before, plan), err=True)
    else:
        unthrottle(cluster, {name for name, _ in plan}, involved(before, plan))


def _stays(before: Mapping[Partition, Replicas], plan: Plan) -> str:
    """What is said of a throttle that is left, and how it is taken away."""
    topics = sorted({name for name, _ in plan})
    brokers = ",".join(map(str, involved(before, plan)))
    named = ", ".join(topics[:_NAMED_MAX]) + (" …" if len(topics) > _NAMED_MAX else "")
    return (
        f"Replicas may still be on their way, so the throttle stays: on brokers {brokers} and "
        f"topics {named}. When `tailrace reassign list` shows no move, take it away: `tailrace config unset broker ID "
        f"{' '.join(RATES)}` for each broker, `tailrace config unset topic NAME {' '.join(REPLICAS)}` for each topic, "
        "or `tailrace reassign verify FILE` with the plan."
    )


@app.command(short_help="Print a plan that spreads topics over brokers.")
def generate(
    topics: Annotated[list[str], typer.Option("--topic", "-t", help="may be repeated")],
    brokers: Annotated[
        str, typer.Option("--brokers", help="ids to spread over, as 0,1,2; default: all live ones")
    ] = "",
    replicas: Annotated[int | None, typer.Option("--replicas", "-r", min=1, help="another replication factor")] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Print a plan that spreads topics over brokers; only partitions that change are in it."""
    asked = _broker_ids(brokers)
    with nodes(bootstrap) as cluster:
        live = {broker.broker_id: broker.rack for broker in cluster.brokers() if not broker.fenced}
        if asked:
            if unknown := [node for node in asked if node not in live]:
                raise RefusedError(f"brokers {unknown} are not live; those are {sorted(live)}")
            live = {node: live[node] for node in asked}
        found = cluster.partitions(topics)
        lists = {name: [tuple(found[key].replica_nodes) for key in sorted(found) if key[0] == name] for name in topics}
        say(as_text(spread(lists, live, replicas)))


def _broker_ids(text: str) -> list[int]:
    """Ids with commas; none for an empty text."""
    try:
        return [int(node) for node in text.split(",")] if text else []
    except ValueError:
        raise typer.BadParameter(f"--brokers {text}: expected ids, as 0,1,2") from None


@app.command(short_help="Start what a plan says.")
def execute(file: PlanFile, wait: Wait = False, rate: Rate = None, bootstrap: Bootstrap = None) -> None:
    """Start what a plan says; prints how it was, as a plan that goes back.

    A --throttle ends with the moves that --wait waits for, or with the `verify` that finds all of it done.
    """
    text = _read(file)
    with nodes(bootstrap, lasting=True) as cluster:
        plan = parsed(text)
        now = cluster.partitions(sorted({name for name, _ in plan}))
        before = {key: tuple(now[key].replica_nodes) for key in plan if key in now}
        move(cluster, before, plan, rate, wait=wait, started=lambda: say(as_text(before)))


@app.command(short_help="Say of each partition of a plan if it is done.")
def verify(file: PlanFile, bootstrap: Bootstrap = None) -> None:
    """Say of each partition of a plan whether it is done; status 0 if all are, 1 if not.

    Throttles of the plan's topics and of all brokers are taken away once nothing is being moved.
    """
    text = _read(file)
    with nodes(bootstrap) as cluster:
        plan = parsed(text)
        topics = sorted({name for name, _ in plan})
        now, moving = cluster.partitions(topics), cluster.reassignments()
        if not moving:
            unthrottle(cluster, topics, [broker.broker_id for broker in cluster.brokers()])
    rows = [
        {"topic_name": name, "partition_id": index, "state": _state(plan, now, moving, (name, index))}
        for name, index in sorted(plan)
    ]
    show(rows, {"topic_name": "topic", "partition_id": "partition", "state": "state"})
    if any(row["state"] != "complete" for row in rows):
        raise typer.Exit(1)


def _state(plan: Plan, now: Mapping[Partition, PartitionRow], moving: Container[Partition], key: Partition) -> str:
    if key in moving:
        return "in progress"
    if key not in now:
        return "no such partition"
    return "complete" if tuple(now[key].replica_nodes) == plan[key] else "other replicas"


@app.command("list")
def list_moves(bootstrap: Bootstrap = None) -> None:
    """What is being moved, with progress."""
    with nodes(bootstrap) as cluster:
        moving = cluster.reassignments()
        progress = {key: look(cluster, {key}) for key in sorted(moving)}
    rows = [_move_row(key, moving[key], now) for key, now in progress.items()]
    shown = [row | {"copied": _share(now)} for row, now in zip(rows, progress.values(), strict=True)]
    show(shown, _MOVES, data=rows, text=None if rows else lambda: say("No partition is being reassigned."))


def _move_row(key: Partition, part: Any, now: MoveProgress) -> dict[str, object]:
    """In the REST API's names."""
    return {
        "topic_name": key[0],
        "partition_id": key[1],
        "replica_ids": list(part.replicas),
        "adding_replicas": list(part.adding_replicas),
        "removing_replicas": list(part.removing_replicas),
        "copied_bytes": now.copied_bytes,
        "total_bytes": now.total_bytes,
    }


def _share(now: MoveProgress) -> str:
    return f"{now.copied_bytes * 100 // now.total_bytes} %" if now.total_bytes else ""


@app.command(short_help="Go back to the replicas from before.")
def cancel(
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="cancel what this plan says")] = None,
    everything: Annotated[bool, typer.Option("--all", help="cancel every reassignment")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Go back to the replicas from before, where a reassignment is not done yet."""
    if (file is None) != everything:
        raise typer.BadParameter("name a plan's FILE, or --all")
    text = _read(file) if file is not None else ""
    with nodes(bootstrap) as cluster:
        moving = cluster.reassignments()
        wanted = list(moving)
        if file is not None:
            plan = parsed(text)
            cluster.partitions(sorted({name for name, _ in plan}))  # refuses a topic that there is not
            wanted = [key for key in plan if key in moving]
        if wanted:
            start(cluster, dict.fromkeys(wanted))
    done(
        f"cancelled {counted(len(wanted), 'reassignment')}" if wanted else "None of these is being reassigned.",
        partitions=[{"topic_name": name, "partition_id": index} for name, index in wanted],
    )
