"""`tailrace transaction abort` and `terminate`: end a transaction on one partition, or a producer with its transaction.

Kafka's AbortTransactionCommand (KIP-664) and ForceTerminateTransactionCommand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailrace.cli.daily.connection import Bootstrap, given
from tailrace.cli.daily.nodes import NOT_YET, Nodes, nodes
from tailrace.cli.daily.output import done
from tailrace.cli.daily.refusals import RefusedError
from tailrace.cli.daily.transactions import hanging
from tailrace.coordination.transaction_records import Status
from tailrace.errors import ErrorCode
from tailrace.metadata.moves import Partition
from tailrace.net.address import Address
from tailrace.wire import messages as m

if TYPE_CHECKING:
    from tailrace.cli.daily.transactions.hanging import ProducerRow

TransactionalId = Annotated[str, typer.Argument(help="transactional id", callback=given)]
_TRANSACTION = 1  # key type of FindCoordinator
_ABORT = False
# Of a transaction that nobody begins; so short that no transaction.max.timeout.ms forbids it.
_FENCE_TIMEOUT_MS = 1_000
_OUTCOMES = {
    Status.ONGOING: "its open transaction is aborted",
    Status.PREPARE_ABORT: "its transaction was being aborted, and is",
    Status.PREPARE_EPOCH_FENCE: "its transaction was being aborted, and is",
    Status.PREPARE_COMMIT: "its transaction was being committed, and is",
}
_NOT_FOUND = frozenset({ErrorCode.TRANSACTIONAL_ID_NOT_FOUND})


def described(cluster: Nodes, transactional_id: str) -> Any:
    """The row of DescribeTransactions; refused where no coordinator knows the id."""
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


def abort(
    topic: Annotated[str, typer.Option("--topic", "-t", callback=given)],
    partition: Annotated[int, typer.Option("--partition", "-p")],
    start_offset: Annotated[int, typer.Option("--start-offset", help="as `find-hanging` shows it", min=0)],
    bootstrap: Bootstrap = None,
) -> None:
    """End a transaction that hangs on a partition: its records are aborted there, and on no other partition."""
    with nodes(bootstrap) as cluster:
        leader, producer = _open_at(cluster, (topic, partition), start_offset)
        # A marker that its coordinator did not decide would tear it apart: this partition aborted, others committed.
        known = hanging.coordinated(cluster, [producer.producer_id])
        if name := known.get((producer.producer_id, (topic, partition))):
            raise RefusedError(
                f"{topic}-{partition}: it does not hang, {name} has it open; "
                f"`tailrace transaction terminate {name}` aborts it on all its partitions"
            )
        marker = m.WriteTxnMarkersRequest.WritableTxnMarker
        asked = marker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=_ABORT,
            topics=[marker.WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
            coordinator_epoch=max(0, producer.coordinator_epoch),
        )
        cluster.ask(m.WriteTxnMarkersRequest(markers=[asked]), 1, leader)
    done(
        f"{topic}-{partition}: the transaction of producer {producer.producer_id} is aborted",
        topic_name=topic,
        partition_id=partition,
        producer_id=producer.producer_id,
    )


def _open_at(cluster: Nodes, partition: Partition, start_offset: int) -> tuple[Address, ProducerRow]:
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
        f"{name}-{index}: no open transaction begins at offset {start_offset}; "
        f"`tailrace topic producers {name}` shows where they begin"
    )


def terminate(transactional_id: TransactionalId, bootstrap: Bootstrap = None) -> None:
    """Fence a transactional id's producer: its open transaction is aborted, and the producer fails for good."""
    with nodes(bootstrap) as cluster:
        before = described(cluster, transactional_id)
        request = m.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=_FENCE_TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
        )
        at = cluster.coordinator(transactional_id, _TRANSACTION)
        cluster.ask(request, 4, at, again={*NOT_YET, ErrorCode.CONCURRENT_TRANSACTIONS})
    outcome = _OUTCOMES.get(before.transaction_state, "it had no open transaction")
    done(
        f"{transactional_id}: producer {before.producer_id} is fenced at epoch {before.producer_epoch}; {outcome}",
        transactional_id=transactional_id,
        producer_id=before.producer_id,
        producer_epoch=before.producer_epoch,
    )
