"""`tailrace transaction`: what kafka-transactions does (KIP-664): list, describe, find and end transactions."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any

import typer

from tailrace.cli.daily.connection import Bootstrap, Json, OnePartition, SomeTopics, given, one_topic, table
from tailrace.cli.daily.nodes import NOT_YET, Nodes, nodes
from tailrace.cli.daily.refusals import RefusedError
from tailrace.cli.daily.transactions import hanging
from tailrace.errors import ErrorCode
from tailrace.metadata.moves import Partition
from tailrace.net.address import Address
from tailrace.wire import messages as m

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Transactions: who has which, and those that nobody ends.",
)
TransactionalId = Annotated[str, typer.Argument(help="transactional id", callback=given)]
_TRANSACTION = 1  # key type of FindCoordinator
_ABORT = False
# Of the transaction that a fence would begin; none is.
_FENCE_TIMEOUT_MS = 60_000
_NOT_FOUND = frozenset({ErrorCode.TRANSACTIONAL_ID_NOT_FOUND})


@app.command("list")
def list_transactions(
    states: Annotated[
        list[str] | None, typer.Option("--state", help="Ongoing, PrepareCommit, ... ; may be repeated")
    ] = None,
    producer_ids: Annotated[list[int] | None, typer.Option("--producer-id", help="may be repeated")] = None,
    longer_than_ms: Annotated[int, typer.Option("--longer-than-ms", help="open for longer than this")] = -1,
    pattern: Annotated[str | None, typer.Option("--pattern", help="a regular expression (RE2) for whole ids")] = None,
    as_data: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """All transactional ids, or some, with their producer and state."""
    request = m.ListTransactionsRequest(
        state_filters=states or [],
        producer_id_filters=producer_ids or [],
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    with nodes(bootstrap) as cluster:
        found = _listed(cluster, request)
    if as_data:
        typer.echo(json.dumps(found))
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
            raise RefusedError(f"no state of a transaction: {', '.join(answer.unknown_state_filters)}")
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


@app.command()
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
        typer.echo(json.dumps(row))
        return
    told = "-" if start_ms < 0 else datetime.fromtimestamp(start_ms / 1000).astimezone().isoformat(" ", "milliseconds")
    named = {**row, "start_ms": told, "partitions": " ".join(partitions) or "-"}
    table(
        ("transactional id", "producer", "epoch", "state", "timeout in ms", "begun", "partitions"),
        [tuple(named.values())],
    )


def described(cluster: Nodes, transactional_id: str) -> Any:
    """The row of DescribeTransactions; refused where nobody knows the id."""
    answer = cluster.ask(
        m.DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        0,
        cluster.coordinator(transactional_id, _TRANSACTION),
        handled=_NOT_FOUND,
    )
    (found,) = answer.transaction_states
    if found.error_code:
        raise RefusedError(f"{transactional_id}: no such transactional id; `tailrace transaction list` names them")
    return found


@app.command("find-hanging")
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
        now_ms = cluster.wall_ms()
        asked = hanging.places(cluster, topics or (), partition, broker)
        found = hanging.find(cluster, asked, now_ms - 60_000 * max_timeout_minutes)
    rows = [
        {
            "topic": name,
            "partition": index,
            "producer_id": one.producer_id,
            "producer_epoch": one.producer_epoch,
            "coordinator_epoch": one.coordinator_epoch,
            "start_offset": one.current_txn_start_offset,
            "last_timestamp": one.last_timestamp,
            "minutes": (now_ms - one.last_timestamp) // 60_000,
        }
        for (name, index), one in found
    ]
    if as_data:
        typer.echo(json.dumps(rows))
    else:
        head = ("topic", "partition", "producer", "epoch", "coordinator epoch", "start offset", "timestamp", "minutes")
        table(head, [tuple(row.values()) for row in rows])


@app.command()
def abort(
    topic: Annotated[str, typer.Option("--topic", "-t", callback=given)],
    partition: Annotated[int, typer.Option("--partition", "-p")],
    start_offset: Annotated[int, typer.Option("--start-offset", help="as `find-hanging` tells it", min=0)],
    bootstrap: Bootstrap = None,
) -> None:
    """End a transaction that hangs on a partition: its records are aborted there, and on no other partition."""
    with nodes(bootstrap) as cluster:
        leader, producer = _open_at(cluster, (topic, partition), start_offset)
        marker = m.WriteTxnMarkersRequest.WritableTxnMarker
        asked = marker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=_ABORT,
            topics=[marker.WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
            coordinator_epoch=max(0, producer.coordinator_epoch),
        )
        cluster.ask(m.WriteTxnMarkersRequest(markers=[asked]), 1, leader)
    typer.echo(f"{topic}-{partition}: the transaction of producer {producer.producer_id} is aborted")


def _open_at(cluster: Nodes, partition: Partition, start_offset: int) -> tuple[Address, Any]:
    """The partition's leader, and the producer whose open transaction begins at the offset."""
    name, index = partition
    part = cluster.partitions([name]).get(partition)
    if part is None:
        raise RefusedError(f"{name} has no partition {index}")
    leader = next((one for one in cluster.brokers() if one.broker_id == part.leader_id and not one.fenced), None)
    if leader is None:
        raise RefusedError(
            f"{name}-{index}: no broker leads it; `tailrace status` names the partitions that are offline"
        )
    for one in hanging.producers(cluster, {partition: leader.broker_id})[partition]:
        if one.current_txn_start_offset == start_offset:
            return Address(leader.host, leader.port), one
    raise RefusedError(
        f"{name}-{index}: no open transaction begins at offset {start_offset}; `tailrace topic producers` names them"
    )


@app.command()
def terminate(transactional_id: TransactionalId, bootstrap: Bootstrap = None) -> None:
    """Fence a transactional id's producer: its open transaction is aborted, and the producer fails for good."""
    with nodes(bootstrap) as cluster:
        described(cluster, transactional_id)
        at = cluster.coordinator(transactional_id, _TRANSACTION)
        request = m.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=_FENCE_TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
        )
        fenced = cluster.ask(request, 4, at, again={*NOT_YET, ErrorCode.CONCURRENT_TRANSACTIONS})
    typer.echo(
        f"{transactional_id}: fenced; epoch {fenced.producer_epoch} of producer {fenced.producer_id} is the next"
    )
