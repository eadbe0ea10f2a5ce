"""`tailrace transaction`: what kafka-transactions does (KIP-664): list, describe, find and end transactions."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from tailrace.cli.daily.connection import Bootstrap, Json, OnePartition, SomeTopics, local_time, one_topic, say, table
from tailrace.cli.daily.nodes import Nodes, nodes
from tailrace.cli.daily.refusals import RefusedError
from tailrace.cli.daily.transactions import hanging
from tailrace.cli.daily.transactions.end import TransactionalId, abort, described, terminate
from tailrace.coordination.transaction_records import STATES
from tailrace.metadata.moves import Partition
from tailrace.wire import messages as m

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Transactions: show them, find those that hang, end one.",
)


@app.command("list", short_help="Transactional ids with producer and state.")
def list_transactions(
    states: Annotated[
        list[str] | None, typer.Option("--state", help="Ongoing, PrepareCommit, ... ; may be repeated")
    ] = None,
    producer_ids: Annotated[list[int] | None, typer.Option("--producer-id", help="may be repeated")] = None,
    longer_than_ms: Annotated[int, typer.Option("--longer-than-ms", help="only those that are open for longer")] = -1,
    pattern: Annotated[str | None, typer.Option("--pattern", help="a regular expression (RE2) for whole ids")] = None,
    as_data: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """All transactional ids, or some, with their producer and state."""
    request = m.ListTransactionsRequest(
        # For Kafka an id without a transaction is as old as 1970, and a transaction that ended is as old as its begin.
        state_filters=states or (list(hanging.OPEN_STATES) if longer_than_ms >= 0 else []),
        producer_id_filters=producer_ids or [],
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    with nodes(bootstrap) as cluster:
        found = _listed(cluster, request)
    if as_data:
        say(json.dumps(found))
    else:
        table(
            ("transactional id", "coordinator", "producer", "state"),
            [(one["transactional_id"], one["coordinator"], one["producer_id"], one["state"]) for one in found],
        )


def _listed(cluster: Nodes, request: Any) -> list[dict[str, Any]]:
    """Of every node those that it coordinates; a state that is none is refused."""
    found = []
    for broker_id, _, answer in cluster.ask_each(request, 2):
        if answer.unknown_state_filters:
            wrong = ", ".join(answer.unknown_state_filters)
            raise RefusedError(f"{wrong}: no such state; the states are {', '.join(STATES)}")
        found += [
            {
                "transactional_id": one.transactional_id,
                "coordinator": broker_id,
                "producer_id": one.producer_id,
                "state": one.transaction_state,
            }
            for one in answer.transaction_states
        ]
    return sorted(found, key=lambda one: str(one["transactional_id"]))


@app.command(short_help="One transactional id and its transaction.")
def describe(transactional_id: TransactionalId, as_data: Json = False, bootstrap: Bootstrap = None) -> None:
    """One transactional id: its producer, its state, since when, and the partitions of its transaction."""
    with nodes(bootstrap) as cluster:
        found = described(cluster, transactional_id)
    partitions = [f"{topic.topic}-{index}" for topic in found.topics for index in topic.partitions]
    start_ms = found.transaction_start_time_ms
    row = {
        "transactional_id": transactional_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "state": found.transaction_state,
        "timeout_ms": found.transaction_timeout_ms,
        "start_ms": None if start_ms < 0 else start_ms,
        "partitions": partitions,
    }
    if as_data:
        say(json.dumps(row))
        return
    start = "-" if start_ms < 0 else local_time(start_ms)
    named = {**row, "start_ms": start, "partitions": " ".join(partitions) or "-"}
    table(
        ("transactional id", "producer", "epoch", "state", "timeout in ms", "begun", "partitions"),
        [tuple(named.values())],
    )


@app.command("find-hanging", short_help="Open transactions that nothing ends.")
def find_hanging(
    topics: SomeTopics = None,
    partition: OnePartition = None,
    broker: Annotated[int | None, typer.Option("--broker", help="what this broker's replicas remember")] = None,
    max_timeout_minutes: Annotated[
        int, typer.Option("--max-transaction-timeout", min=0, help="minutes; younger ones may still be ended")
    ] = 15,
    as_data: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Open transactions of which no coordinator knows: nobody ends them, and readers at read_committed wait."""
    one_topic(topics, partition)
    with nodes(bootstrap) as cluster:
        now_ms = cluster.clock.wall_ms()
        asked, leaderless = hanging.places(cluster, topics or (), partition, broker)
        found = hanging.find(cluster, asked, now_ms - 60_000 * max_timeout_minutes)
    rows = [_row(partition, one, now_ms) for partition, one in found]
    if as_data:
        say(json.dumps(rows))
    elif rows:
        shown = [{**row, "last_timestamp": local_time(row["last_timestamp"])} for row in rows]
        table(tuple(name.replace("_", " ") for name in rows[0]), [tuple(row.values()) for row in shown])
    elif not leaderless:
        say("No transaction hangs.")
    for name, index in leaderless:
        say(f"{name}-{index}: no broker leads it, so it was not looked at", err=True)
    if leaderless:
        raise typer.Exit(1)


def _row(place: Partition, one: Any, now_ms: int) -> dict[str, Any]:
    topic, partition = place
    return {
        "topic": topic,
        "partition": partition,
        "start_offset": one.current_txn_start_offset,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "coordinator_epoch": one.coordinator_epoch,
        "last_timestamp": one.last_timestamp,
        "minutes": (now_ms - one.last_timestamp) // 60_000,
    }


app.command(short_help="End a transaction that hangs on a partition.")(abort)
app.command(short_help="Fence a transactional id's producer.")(terminate)
