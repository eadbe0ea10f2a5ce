"""What metrics and the controller's SQL views show of transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tailrace.coordination.transaction_records import Status, TransactionState
from tailrace_coordinator.shards.kind import Gauge, Report
from tailrace_coordinator.transactions.machine import TransactionMachine

_STATES: Final = tuple(status for status in Status if status not in (Status.DEAD, Status.PREPARE_EPOCH_FENCE))


def transaction_gauges(machines: Sequence[TransactionMachine]) -> Iterable[Gauge]:
    """Counts transactional ids by state; a state without any is 0."""
    states = Counter(one.state for machine in machines for one in machine.transactions.values())
    for status in _STATES:
        yield Gauge("transactions", "Transactional ids by state", states[status], {"state": status.value})


def _row(transaction: TransactionState) -> dict[str, object]:
    return {
        "transactional_id": transaction.transactional_id,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "state": transaction.state.value,
        "timeout_ms": transaction.timeout_ms,
        "start_ms": transaction.start_timestamp_ms,
        "partitions": sum(len(indexes) for _, indexes in transaction.partitions),
    }


TRANSACTION_REPORTS: Final[Mapping[str, Report]] = {
    "transactions": Report(lambda machine: machine.transactions.values(), _row, ("transactional_id",))
}
