"""The transactional ids of one partition of `__transaction_state`: every decision, and the one `apply`.

Kafka's TransactionCoordinator and TransactionStateManager. Kafka notes an append under way as a pending state, and
refuses others meanwhile with CONCURRENT_TRANSACTIONS; here the next decision sees what the one before it decided, and
its reply waits for both. Transaction version 2 is KIP-890: each end of a transaction takes a new epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tailrace.coordination.transaction_records import (
    Status,
    TransactionRecord,
    TransactionState,
    TransactionStateRemoved,
    most_bytes,
)
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.features import TRANSACTION_VERSION
from tailrace.kafka.ids import TopicPartition
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.state import Effects, ProducerIdAndEpoch, Sweep, Token
from tailrace_coordinator.transactions import end, state
from tailrace_coordinator.transactions.config import TransactionConfig
from tailrace_coordinator.transactions.decision import EXPIRY_KEY, TIMEOUTS_KEY, SendMarkers, TransactionDecision
from tailrace_coordinator.transactions.state import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

# Final for a producer: a coordinator whose shard another one owns by now must not say it of what it does not know.
_FINAL = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE})

TransactionEffects = Effects[TransactionRecord]
_NOTHING: TransactionEffects = Effects()


class NeedsProducerId(Exception):
    """A reply: the decision takes a new producer id, and is to be asked for again with one."""


class _Fencing(Exception):
    """The transaction of an earlier producer is being aborted first."""


@dataclass(frozen=True, slots=True)
class Init:
    """What InitProducerId asks; producer -1, -1: a new one. new_producer_id -1: none was taken yet."""

    transactional_id: str
    timeout_ms: int
    producer: ProducerIdAndEpoch
    new_producer_id: int = NO_PRODUCER_ID


class ListTransactionsFilter(NamedTuple):
    """Of whom ListTransactions tells; empty ones and -1 take all. matches: of the transactional id."""

    states: frozenset[str]
    producer_ids: Collection[int]
    longer_than_ms: int
    matches: Callable[[str], bool]


class TransactionMachine:
    """Decisions return Effects; records change what is held through apply. A refusal is a reply, too (an ApiError)."""

    __slots__ = ("_value_version", "config", "transactions")

    def __init__(self, config: TransactionConfig) -> None:
        self.config = config
        self.transactions: dict[str, TransactionState] = {}
        self._value_version = 0

    def __len__(self) -> int:
        return len(self.transactions)

    def apply(self, record: TransactionRecord) -> None:
        """Changes replicated state; live and in replay alike."""
        match record:
            case TransactionState():
                self.transactions[record.transactional_id] = record
            case TransactionStateRemoved():
                self.transactions.pop(record.transactional_id, None)

    # -- of a producer -----------------------------------------------------------------------------------------------

    def init_producer_id(self, now_ms: int, token: Token, request: Init) -> TransactionEffects:
        """Replies what may go on; CONCURRENT_TRANSACTIONS while an earlier transaction is being ended."""
        return self._answer(now_ms, token, lambda decision: self._init(decision, request), request.transactional_id)

    def _init(self, decision: TransactionDecision, request: Init) -> ProducerIdAndEpoch:
        if not 0 < request.timeout_ms <= self.config.transaction_max_timeout_ms:
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        found, now_ms = self.transactions.get(request.transactional_id), decision.now_ms
        new_id, expected = request.new_producer_id, request.producer
        if found is None:
            if new_id == NO_PRODUCER_ID:
                raise NeedsProducerId
            found = state.created(request.transactional_id, new_id, request.timeout_ms, now_ms)
        if found.state in state.ENDING:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)  # first: see add_partitions
        _refuse_another(found, expected)
        if found.state is Status.ONGOING:
            self._fence(decision, found)
            raise _Fencing  # the producer asks again, and gets an epoch of its own
        expected_epoch, timeout_ms = expected.producer_epoch, request.timeout_ms
        if state.takes_next_producer_id(found, expected_epoch):
            if new_id == NO_PRODUCER_ID:
                raise NeedsProducerId
            after = state.with_next_producer_id(found, new_id, expected_epoch, timeout_ms, now_ms)
        else:
            after = state.with_next_epoch(found, expected_epoch, timeout_ms, now_ms)
        self._append(decision, after)
        return ProducerIdAndEpoch(after.producer_id, after.producer_epoch)

    def add_partitions(
        self,
        now_ms: int,
        token: Token,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
        version: int,
    ) -> TransactionEffects:
        """Replies NONE: they are of the transaction. version: the client's transaction version.

        INVALID_REQUEST for more than one transaction may have, or than one record holds.
        While an earlier transaction is being ended everybody is to wait: where its epoch was the last one, its producer
        has been told the next producer id, which takes its place only with the last marker.
        """

        def decide(decision: TransactionDecision) -> ErrorCode:
            ending = self.transactions.get(transactional_id)
            if ending is not None and ending.state in state.ENDING:
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
            found = self._of(transactional_id, producer)
            after = state.with_partitions(found, partitions, decision.now_ms, version)
            if found.state is Status.ONGOING and after.partitions == found.partitions:
                self._append(decision, found)  # see end
                return ErrorCode.NONE
            if (
                sum(len(indexes) for _, indexes in after.partitions) > self.config.max_partitions
                or most_bytes(after) > self.config.max_record_bytes
            ):
                raise ApiError(ErrorCode.INVALID_REQUEST)
            self._append(decision, after)
            return ErrorCode.NONE

        return self._answer(now_ms, token, decide, transactional_id)

    def verify_partitions(
        self,
        now_ms: int,
        token: Token,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
    ) -> TransactionEffects:
        """Replies one code per partition: TRANSACTION_ABORTABLE for what is not of the transaction (KIP-890)."""

        def decide(decision: TransactionDecision) -> list[ErrorCode]:
            found = self._of(transactional_id, producer)
            if found.state in state.ENDING:
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
            held = state.partitions_of(found)
            return [ErrorCode.NONE if one in held else ErrorCode.TRANSACTION_ABORTABLE for one in partitions]

        return self._answer(now_ms, token, decide, transactional_id)

    def end(self, now_ms: int, token: Token, request: end.End) -> TransactionEffects:
        """Replies the ProducerIdAndEpoch that may go on, once the outcome is in the log; its markers follow.

        What is done already is written once more before it is said: a coordinator whose shard another one owns by now
        may know of an earlier transaction only, and would say of that one what is asked of the next.
        """

        def decide(decision: TransactionDecision) -> ProducerIdAndEpoch:
            found = self.transactions.get(request.transactional_id)
            if found is None:
                raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            status = end.outcome(found, request)
            if status is None:
                self._append(decision, found)
                return ProducerIdAndEpoch(found.producer_id, found.producer_epoch)
            rotates = request.version >= 2 and state.is_exhausted(found.producer_epoch)
            if rotates and request.new_producer_id == NO_PRODUCER_ID:
                raise NeedsProducerId
            next_id = request.new_producer_id if rotates else NO_PRODUCER_ID
            after = state.prepared(found, status, decision.now_ms, version=request.version, next_producer_id=next_id)
            self._prepare(decision, after)
            return (
                ProducerIdAndEpoch(next_id, 0)
                if rotates
                else ProducerIdAndEpoch(after.producer_id, after.producer_epoch)
            )

        return self._answer(now_ms, token, decide, request.transactional_id)

    def _of(self, transactional_id: str, producer: ProducerIdAndEpoch) -> TransactionState:
        """Raises ApiError INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED if it is not the producer's."""
        found = self.transactions.get(transactional_id)
        if found is None or found.producer_id != producer.producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if found.producer_epoch != producer.producer_epoch:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        return found

    # -- ending ------------------------------------------------------------------------------------------------------

    def _fence(self, decision: TransactionDecision, found: TransactionState) -> None:
        self._prepare(decision, state.fenced(found, decision.now_ms))

    def _prepare(self, decision: TransactionDecision, after: TransactionState) -> None:
        """Decides the outcome; a transaction without partitions is complete at once."""
        held = self._append(decision, after)
        if held.partitions:
            decision.act(SendMarkers(held))
        else:
            self._append(decision, state.completed(held, decision.now_ms))

    def complete(self, now_ms: int, token: Token, prepared: TransactionState) -> TransactionEffects:
        """Every partition has the marker of this state, or is gone: the transaction is over. Replies None.

        prepared: as SendMarkers had it. Nothing is done when that transaction is over already.
        """

        def decide(decision: TransactionDecision) -> None:
            found = self.transactions.get(prepared.transactional_id)
            if found is not None and found.state in state.ENDING and _same_end(found, prepared):
                self._append(decision, state.completed(found, decision.now_ms))

        return self._answer(now_ms, token, decide)

    # -- of many -----------------------------------------------------------------------------------------------------

    def describe(self, now_ms: int, token: Token, transactional_ids: Sequence[str]) -> TransactionEffects:
        """Replies {transactional id: TransactionState, or None for one that nobody knows}."""
        found = {one: self.transactions.get(one) for one in transactional_ids}
        return self._answer(now_ms, token, lambda _: found)

    def list_transactions(self, now_ms: int, token: Token, wanted: ListTransactionsFilter) -> TransactionEffects:
        """Replies [TransactionState, ...]."""
        found = [one for one in self.transactions.values() if _is_wanted(one, wanted, now_ms)]
        return self._answer(now_ms, token, lambda _: found)

    # -- by itself ---------------------------------------------------------------------------------------------------

    def on_loaded(self, now_ms: int, image: MetadataImage) -> TransactionEffects:
        """Goes on with what an earlier coordinator had begun to end, and begins the deadlines."""
        self._take_version(image)
        decision = TransactionDecision(self.config, now_ms)
        decision.act(Sweep(list(self.transactions), self._resume))
        decision.schedule(TIMEOUTS_KEY, self.config.abort_timed_out_interval_ms)
        decision.schedule(EXPIRY_KEY, self.config.remove_expired_interval_ms)
        return decision.effects()

    def _resume(self, now_ms: int, transactional_id: str) -> TransactionEffects:
        one = self.transactions.get(transactional_id)
        if one is None or one.state not in state.ENDING:
            return _NOTHING
        decision = TransactionDecision(self.config, now_ms)
        if one.partitions:
            decision.act(SendMarkers(one))
        else:
            self._append(decision, state.completed(one, now_ms))
        return decision.effects()

    def on_image(self, now_ms: int, delta: MetadataDelta) -> TransactionEffects:
        """The feature transaction.version may be another."""
        self._take_version(delta.new)
        return Effects()

    def _take_version(self, image: MetadataImage) -> None:
        self._value_version = min(1, image.features.get(TRANSACTION_VERSION, 0))

    def on_timer(self, key: Hashable, now_ms: int) -> TransactionEffects:
        """Aborts what is past its timeout, or forgets ids that nobody has used for transactional.id.expiration.ms."""
        config = self.config
        decision = TransactionDecision(config, now_ms)
        if key == TIMEOUTS_KEY:
            decision.act(Sweep(list(self.transactions), self._abort_timed_out))
            decision.schedule(key, config.abort_timed_out_interval_ms)
        else:
            decision.act(Sweep(list(self.transactions), self._remove_expired))
            decision.schedule(key, config.remove_expired_interval_ms)
        return decision.effects()

    def _abort_timed_out(self, now_ms: int, transactional_id: str) -> TransactionEffects:
        one = self.transactions.get(transactional_id)
        if one is None or one.state is not Status.ONGOING or one.start_timestamp_ms + one.timeout_ms > now_ms:
            return _NOTHING
        decision = TransactionDecision(self.config, now_ms)
        self._fence(decision, one)
        return decision.effects()

    def _remove_expired(self, now_ms: int, transactional_id: str) -> TransactionEffects:
        one = self.transactions.get(transactional_id)
        if one is None or one.state not in state.ENDED:
            return _NOTHING
        if now_ms - one.last_update_timestamp_ms < self.config.transactional_id_expiration_ms:
            return _NOTHING
        return Effects((TransactionStateRemoved(transactional_id),))

    # -- shared ------------------------------------------------------------------------------------------------------

    def _append(self, decision: TransactionDecision, after: TransactionState) -> TransactionState:
        held = replace(after, value_version=self._value_version)
        decision.append(held)
        return held

    def _answer(
        self,
        now_ms: int,
        token: Token,
        decide: Callable[[TransactionDecision], object],
        transactional_id: str | None = None,
    ) -> TransactionEffects:
        """What is final for the producer of that id is said once a record of the id is in the log (see end)."""
        decision = TransactionDecision(self.config, now_ms)
        try:
            decision.reply(token, decide(decision))
        except _Fencing:
            decision.reply(token, ApiError(ErrorCode.CONCURRENT_TRANSACTIONS))
        except NeedsProducerId as needed:
            decision = TransactionDecision(self.config, now_ms)
            decision.reply(token, needed)
        except ApiError as refusal:
            decision = TransactionDecision(self.config, now_ms)
            if transactional_id is not None and refusal.code in _FINAL:
                found = self.transactions.get(transactional_id)
                decision.append(found or TransactionStateRemoved(transactional_id))
            decision.reply(token, refusal)
        return decision.effects()


def _refuse_another(found: TransactionState, expected: ProducerIdAndEpoch) -> None:
    """Raises ApiError PRODUCER_FENCED if somebody else has the transactional id by now (KIP-360).

    A producer whose epochs were used up may not have heard of its next id.
    """
    if expected.producer_id in (NO_PRODUCER_ID, found.producer_id) or found.producer_epoch == NO_PRODUCER_EPOCH:
        return
    if expected.producer_id == found.previous_producer_id and state.is_exhausted(expected.producer_epoch):
        return
    raise ApiError(ErrorCode.PRODUCER_FENCED)


def _same_end(found: TransactionState, prepared: TransactionState) -> bool:
    """Whether it is this very transaction: up to version 1 the next one has the same outcome, producer id and epoch.

    What is told twice, or late, must not complete that one, whose markers are not written.
    """
    return found is prepared


def _is_wanted(one: TransactionState, wanted: ListTransactionsFilter, now_ms: int) -> bool:
    return (
        (not wanted.producer_ids or one.producer_id in wanted.producer_ids)
        and (not wanted.states or one.state in wanted.states)
        and (wanted.longer_than_ms < 0 or now_ms - one.start_timestamp_ms > wanted.longer_than_ms)
        and wanted.matches(one.transactional_id)
    )
