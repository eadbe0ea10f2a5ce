"""`tailrace transaction`: what kafka-transactions does (KIP-664): list, describe, find and end transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, OnePartition, SomeTopics, local_time, one_topic, say
from tailrace.cli.daily.nodes import Nodes, nodes
from tailrace.cli.daily.output import show
from tailrace.cli.daily.refusals import RefusedError
from tailrace.cli.daily.transactions import hanging
from tailrace.cli.daily.transactions.end import TransactionalId, abort, described, terminate
from tailrace.coordination.transaction_records import STATES
from tailrace.kafka.described_groups import constant_case
from tailrace.metadata.moves import Partition
from tailrace.wire import messages as m

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Transactions: show them, find those that hang, end one.",
)

if TYPE_CHECKING:
    from tailrace.cli.daily.transactions.hanging import ProducerRow


_LISTED: Final = {
    "transactional_id": "transactional id",
    "coordinator_id": "coordinator",
    "producer_id": "producer",
    "state": "state",
}
_DESCRIBED: Final = {
    "transactional_id": "transactional id",
    "producer_id": "producer",
    "producer_epoch": "epoch",
    "state": "state",
    "timeout_ms": "timeout in ms",
    "start_ms": "begun",
    "partitions": "partitions",
}
_HANGING: Final = {
    "topic_name": "topic",
    "partition_id": "partition",
    "start_offset": "start offset",
    "producer_id": "producer id",
    "producer_epoch": "producer epoch",
    "coordinator_epoch": "coordinator epoch",
    "last_timestamp_ms": "last timestamp",
    "minutes": "minutes",
}


@app.command("list", short_help="Transactional ids with producer and state.")
def list_transactions(
    states: Annotated[
        list[str] | None, typer.Option("--state", help="Ongoing, PrepareCommit, ... ; may be repeated")
    ] = None,
    producer_ids: Annotated[list[int] | None, typer.Option("--producer-id", help="may be repeated")] = None,
    longer_than_ms: Annotated[int, typer.Option("--longer-than-ms", help="only those that are open for longer")] = -1,
    pattern: Annotated[str | None, typer.Option("--pattern", help="a regular expression (RE2) for whole ids")] = None,
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
    show(found, _LISTED, data=[{**one, "state": constant_case(one["state"])} for one in found])


def _listed(cluster: Nodes, request: m.ListTransactionsRequest) -> list[dict[str, Any]]:
    """Of every node those that it coordinates; a state that is none is refused."""
    found = []
    for broker_id, _, answer in cluster.ask_each(request, 2):
        if answer.unknown_state_filters:
            wrong = ", ".join(answer.unknown_state_filters)
            raise RefusedError(f"{wrong}: no such state; the states are {', '.join(STATES)}")
        found += [
            {
                "transactional_id": one.transactional_id,
                "coordinator_id": broker_id,
                "producer_id": one.producer_id,
                "state": one.transaction_state,
            }
            for one in answer.transaction_states
        ]
    return sorted(found, key=lambda one: str(one["transactional_id"]))


@app.command(short_help="One transactional id and its transaction.")
def describe(transactional_id: TransactionalId, bootstrap: Bootstrap = None) -> None:
    """One transactional id: its producer, its state, since when, and the partitions of its transaction."""
    with nodes(bootstrap) as cluster:
        found = described(cluster, transactional_id)
    partitions = [
        {"topic_name": topic.topic, "partition_id": index} for topic in found.topics for index in topic.partitions
    ]
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
    show(
        [row],
        _DESCRIBED,
        cells={
            "start_ms": lambda at_ms: None if at_ms is None else local_time(at_ms),
            "partitions": lambda rows: " ".join(f"{one['topic_name']}-{one['partition_id']}" for one in rows) or None,
        },
        data=row | {"state": constant_case(found.transaction_state)},
    )


@app.command("find-hanging", short_help="Open transactions that nothing ends.")
def find_hanging(
    topics: SomeTopics = None,
    partition: OnePartition = None,
    broker: Annotated[int | None, typer.Option("--broker", help="what this broker's replicas remember")] = None,
    max_timeout_minutes: Annotated[
        int, typer.Option("--max-transaction-timeout", min=0, help="minutes; younger ones may still be ended")
    ] = 15,
    bootstrap: Bootstrap = None,
) -> None:
    """Open transactions of which no coordinator knows: nobody ends them, and readers at read_committed wait."""
    one_topic(topics, partition)
    with nodes(bootstrap) as cluster:
        now_ms = cluster.clock.wall_ms()
        asked, leaderless = hanging.places(cluster, topics or (), partition, broker)
        found = hanging.find(cluster, asked, now_ms - 60_000 * max_timeout_minutes)
    rows = [_row(partition, one, now_ms) for partition, one in found]
    empty = (lambda: None) if leaderless else (lambda: say("No transaction hangs."))
    show(rows, _HANGING, cells={"last_timestamp_ms": local_time}, text=None if rows else empty)
    for name, index in leaderless:
        say(f"{name}-{index}: no broker leads it, so it was not looked at", err=True)
    if leaderless:
        raise typer.Exit(1)


def _row(place: Partition, one: ProducerRow, now_ms: int) -> dict[str, Any]:
    topic, partition = place
    return {
        "topic_name": topic,
        "partition_id": partition,
        "start_offset": one.current_txn_start_offset,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "coordinator_epoch": one.coordinator_epoch,
        "last_timestamp_ms": one.last_timestamp,
        "minutes": (now_ms - one.last_timestamp) // 60_000,
    }


app.command(short_help="End a transaction that hangs on a partition.")(abort)
app.command(short_help="Fence a transactional id's producer.")(terminate)
