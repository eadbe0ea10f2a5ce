"""The rules of transactions broken on purpose, one at a time: the simulator must find each within a few seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sim.worlds import broken
from tailrace.coordination.transaction_records import Status, TransactionState
from tailrace.errors import ApiError, ErrorCode
from tailrace.log.producers import state as producer_state
from tailrace.log.producers.verification import Verifications
from tailrace.state import Effects, InTransaction, Shard
from tailrace_coordinator.groups.ended_transactions import EndedTransactions
from tailrace_coordinator.groups.machine import GroupMachine
from tailrace_coordinator.groups.pending_offsets import PendingOffsets
from tailrace_coordinator.transactions import end, machine, markers, state
from tailrace_coordinator.transactions.decision import TIMEOUTS_KEY
from tailrace_coordinator.transactions.machine import TransactionMachine
from tailrace_coordinator.transactions.markers import MarkerSender

_CHECK_MARKER: Callable[..., None] = producer_state.check_marker
_PENDING_END: Callable[..., Any] = PendingOffsets.end
_OUTCOME: Callable[..., Any] = end.outcome
_ON_TIMER: Callable[..., Any] = TransactionMachine.on_timer
_PREPARED: Callable[..., TransactionState] = state.prepared
_WITH_NEXT_EPOCH: Callable[..., TransactionState] = state.with_next_epoch
_WITH_PARTITIONS: Callable[..., TransactionState] = state.with_partitions
_INIT: Callable[..., Any] = vars(TransactionMachine)["_init"]
_APPLY: Callable[..., Any] = GroupMachine.apply
_REPEATED: Callable[..., Any] = producer_state.repeated_batch
_BY_EPOCH = {Status.PREPARE_COMMIT: Status.ONGOING, Status.PREPARE_ABORT: Status.ONGOING}


def _unverified(entry: Any, header: Any, verification: Any) -> Any:
    repeated = None if entry is None else _REPEATED(entry, header)
    return repeated or producer_state.check(entry, header)


def _asked_once(self: Verifications, producer_id: int) -> None:
    """What a marker overtook counts all the same."""


def _marker_of_any_transaction(entry: Any, header: Any, marker: Any, transaction_version: int) -> None:
    _CHECK_MARKER(entry, header, marker, 0)


def _marker_of_anybody(entry: Any, header: Any, marker: Any, transaction_version: int) -> None:
    """Neither epoch is looked at."""


def _group_takes_any_marker(self: GroupMachine, now_ms: int, token: int, ended: Any, version: int) -> Any:
    def decide(decision: Any) -> ErrorCode:
        decision.append(ended)
        return ErrorCode.NONE

    return self._answer(now_ms, token, decide)


def _keeps_aborted(self: PendingOffsets, producer_id: int, *, committed: bool) -> Any:
    return _PENDING_END(self, producer_id, committed=True)


def _replays_no_pending_offsets(self: GroupMachine, record: Any) -> Any:
    """An open transaction's offsets count at once."""
    return _APPLY(self, record.record if isinstance(record, InTransaction) else record)


def _on_loaded(self: TransactionMachine, now_ms: int, image: Any) -> Any:
    """What the coordinator before had begun to end stays as it is."""
    effects = _ON_LOADED(self, now_ms, image)
    return replace(effects, replies=())


_ON_LOADED: Callable[..., Any] = TransactionMachine.on_loaded


def _no_timeouts(self: TransactionMachine, key: Any, now_ms: int) -> Any:
    return Effects() if key == TIMEOUTS_KEY else _ON_TIMER(self, key, now_ms)


def _another_outcome(found: TransactionState, request: Any) -> Any:
    """A transaction that is being ended may be ended otherwise."""
    return _OUTCOME(replace(found, state=_BY_EPOCH.get(found.state, found.state)), request)


def _end_of_any_epoch(found: TransactionState, request: Any) -> Any:
    now = request.producer._replace(producer_epoch=found.producer_epoch)
    return _OUTCOME(found, replace(request, producer=now))


def _same_epoch(found: TransactionState, *arguments: Any) -> TransactionState:
    """InitProducerId fences nobody."""
    after = _WITH_NEXT_EPOCH(found, *arguments)
    return replace(after, producer_epoch=max(0, found.producer_epoch))


def _no_fence(self: TransactionMachine, decision: Any, request: Any) -> Any:
    """InitProducerId leaves an open transaction as it is, and forgets it."""
    found = self.transactions.get(request.transactional_id)
    if found is not None and found.state is Status.ONGOING:
        self.transactions[request.transactional_id] = replace(found, state=Status.EMPTY, partitions=())
    return _INIT(self, decision, request)


def _last_partitions(found: TransactionState, *arguments: Any) -> TransactionState:
    """A transaction knows the partitions that were added last."""
    return _WITH_PARTITIONS(replace(found, partitions=()), *arguments)


def _released(self: Shard[Any]) -> Any:
    """Replies, markers among them, do not wait for the log."""
    released = tuple(reply for _, reply in self._parked)
    self._parked.clear()
    return released


async def _without_a_look(self: MarkerSender, sending: Any) -> None:
    sending.is_caught_up = True
    self._again(sending)


def _id_mapping_first(self: TransactionMachine, now_ms: int, token: int, name: str, producer: Any, *rest: Any) -> Any:
    """AddPartitionsToTxn looks at the producer id before it looks whether another takes its place."""
    found = self.transactions.get(name)
    if found is not None and found.producer_id != producer.producer_id:
        return self._answer(now_ms, token, lambda _: ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    return _ADD_PARTITIONS(self, now_ms, token, name, producer, *rest)


_ADD_PARTITIONS: Callable[..., Any] = TransactionMachine.add_partitions


def _says_without_the_log(self: TransactionMachine, now_ms: int, token: int, *asked: Any) -> Any:
    """That partitions are of the transaction already is answered by a coordinator that lost its shard, too."""
    effects = _ADD_PARTITIONS(self, now_ms, token, *asked)
    return replace(effects, records=()) if set(effects.records) <= set(self.transactions.values()) else effects


def _anybody(self: TransactionMachine, transactional_id: str, _producer: Any) -> TransactionState:
    return self.transactions[transactional_id]


MUTANTS = (
    broken("a late marker ends the next transaction", producer_state, "check_marker", _marker_of_any_transaction, 191),
    broken("a leader takes markers of any epoch", producer_state, "check_marker", _marker_of_anybody, 9),
    broken("a group takes markers of any epoch", GroupMachine, "end_transaction", _group_takes_any_marker, 5),
    broken("a new owner does not send the markers", TransactionMachine, "on_loaded", _on_loaded, 3),
    broken("nothing times out", TransactionMachine, "on_timer", _no_timeouts, 6),
    broken("a transaction may get another outcome", end, "outcome", _another_outcome, 10),
    broken("a transaction forgets its partitions", state, "with_partitions", _last_partitions),
    broken("answers do not wait for the log", Shard, "_released", _released),
    broken("a refused marker counts as written", markers, "_DONE", frozenset(ErrorCode), 12),
    broken("a producer of an earlier epoch may go on", TransactionMachine, "_of", _anybody, 4),
    broken("a group keeps the offsets of an aborted transaction", PendingOffsets, "end", _keeps_aborted, 2),
    broken("offsets count before the commit", GroupMachine, "apply", _replays_no_pending_offsets, 2),
    broken("a late EndTxn ends the next transaction", end, "outcome", _end_of_any_epoch, 6),
    broken("InitProducerId takes no new epoch", state, "with_next_epoch", _same_epoch),
    broken("InitProducerId forgets an open transaction", TransactionMachine, "_init", _no_fence, 2),
    broken("a new partition counts as deleted", MarkerSender, "_look", _without_a_look, 10),
    broken("the next producer id is unknown", TransactionMachine, "add_partitions", _id_mapping_first, 164),
)

# Of these no seed is known yet that finds them: no test requires it.
UNSEEDED = (
    broken("markers of one transaction complete another", machine, "_same_end", lambda *_: True),
    broken("a leader asks nobody before the first append", producer_state, "check_transactional", _unverified),
    broken("a verification outlives a marker", Verifications, "clear", _asked_once),
    broken("a group takes offsets after their transaction's end", EndedTransactions, "since", lambda *_: False),
    broken("a zombie says what is done", TransactionMachine, "add_partitions", _says_without_the_log),
)
