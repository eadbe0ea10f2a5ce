"""What must be true of transactions, after each event and in the end. It believes no machine: it reads the logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tailrace.coordination.transaction_records import Status, TransactionRecord, TransactionState
from tailrace.state import ProducerIdAndEpoch

TopicPartition = tuple[str, int]
OPEN = frozenset({Status.ONGOING, Status.PREPARE_COMMIT, Status.PREPARE_ABORT})
_ENDED = frozenset({Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT})
# From where a state may be reached. An abort of nothing is KIP-890's.
_BEFORE = {
    Status.EMPTY: _ENDED,
    Status.ONGOING: _ENDED | {Status.ONGOING},
    Status.PREPARE_COMMIT: {Status.ONGOING},
    Status.PREPARE_ABORT: _ENDED | {Status.ONGOING},
    Status.COMPLETE_COMMIT: {Status.PREPARE_COMMIT},
    Status.COMPLETE_ABORT: {Status.PREPARE_ABORT},
}


class Violation(AssertionError):
    """A promise was broken."""


@dataclass(eq=False)
class Attempt:
    """One transaction as its producer sees it. asks: the outcome it asked for; told: the one it heard of."""

    name: str
    transactional_id: str
    position: int | None  # of the input that it consumes; None: it only writes
    acknowledged: Counter[TopicPartition] = field(default_factory=Counter)
    asks: bool | None = None
    told: bool | None = None
    outcome: bool | None = None  # what its markers say
    ended_in: set[TopicPartition] = field(default_factory=set)
    has_offset: bool = False
    visible: Counter[TopicPartition] = field(default_factory=Counter)


class Checker:
    """Hears of every append and of everything that a reader sees."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.states: dict[str, TransactionState] = {}
        self._epochs: dict[tuple[TopicPartition, int], int] = {}
        self._open: dict[tuple[TopicPartition, int], list[Attempt]] = {}
        self._stable: dict[TopicPartition, int] = {}

    def begin(self, name: str, transactional_id: str, position: int | None) -> Attempt:
        """A producer begins a transaction."""
        attempt = Attempt(name, transactional_id, position)
        self.attempts.append(attempt)
        return attempt

    def ended(self, attempt: Attempt, committed: bool) -> None:
        """Its producer is told so."""
        attempt.told = committed
        self._agree(attempt)

    # -- what is appended --------------------------------------------------------------------------------------------

    def on_state(self, record: TransactionRecord) -> None:
        """A record of `__transaction_state`."""
        before = self.states.get(record.transactional_id)
        if not isinstance(record, TransactionState):
            if before is not None and before.state in OPEN:
                raise Violation(f"{before} was forgotten")
            self.states.pop(record.transactional_id, None)
            return
        self.states[record.transactional_id] = record
        if before is None or before == record:  # the same once more: whoever says so shows that it may still write
            return
        if before.state not in _BEFORE[record.state]:
            raise Violation(f"{record.transactional_id} went from {before.state} to {record.state}")
        if record.producer_id == before.producer_id and record.producer_epoch < before.producer_epoch:
            raise Violation(f"the epoch of {record.transactional_id} went back from {before} to {record}")
        if record.state in (Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT):
            for topic, indexes in before.partitions:
                for index in indexes:
                    if self._open.get(((topic, index), before.producer_id)):
                        raise Violation(f"{before} is complete, and {topic}-{index} has no marker")

    def on_records(self, place: TopicPartition, producer: ProducerIdAndEpoch, attempt: Attempt) -> None:
        """Records or offsets of a transaction."""
        self._epoch(place, producer)
        if place in attempt.ended_in:
            raise Violation(f"{attempt.name} writes to {place} after its end")
        span = self._open.setdefault((place, producer.producer_id), [])
        if attempt not in span:
            span.append(attempt)
        if len(span) > 1:
            raise Violation(f"{[one.name for one in span]} of producer {producer} are one transaction in {place}")

    def on_marker(self, place: TopicPartition, producer: ProducerIdAndEpoch, committed: bool) -> None:
        """A marker; what the producer wrote before it is decided."""
        self._epoch(place, producer)
        for attempt in self._open.pop((place, producer.producer_id), ()):
            attempt.ended_in.add(place)
            if attempt.outcome is not None and attempt.outcome != committed:
                raise Violation(f"{attempt.name} has two outcomes")
            attempt.outcome = committed
            self._agree(attempt)

    def _epoch(self, place: TopicPartition, producer: ProducerIdAndEpoch) -> None:
        key = (place, producer.producer_id)
        if producer.producer_epoch < self._epochs.get(key, -1):
            raise Violation(f"{place} goes back from epoch {self._epochs[key]} to {producer}")
        self._epochs[key] = producer.producer_epoch

    @staticmethod
    def _agree(attempt: Attempt) -> None:
        if attempt.outcome and not attempt.asks:
            raise Violation(f"{attempt.name} is committed, and its producer asked for {attempt.asks}")
        if None not in (attempt.outcome, attempt.told) and attempt.outcome != attempt.told:
            raise Violation(f"{attempt.name} is told {attempt.told}, and its markers say {attempt.outcome}")

    # -- what is read ------------------------------------------------------------------------------------------------

    def on_visible(self, place: TopicPartition, attempt: Attempt, count: int) -> None:
        """A reader at read_committed gets a batch."""
        if not attempt.outcome:
            raise Violation(f"{attempt.name} is visible in {place}, its outcome is {attempt.outcome}")
        attempt.visible[place] += count
        if attempt.visible[place] > attempt.acknowledged[place]:
            raise Violation(f"{attempt.name} is visible {attempt.visible} times of {attempt.acknowledged}")

    def on_stable(self, place: TopicPartition, last_stable_offset: int) -> None:
        """A reader is told how far it may read."""
        if last_stable_offset < self._stable.get(place, 0):
            raise Violation(f"the last stable offset of {place} went back to {last_stable_offset}")
        self._stable[place] = last_stable_offset

    # -- in the end --------------------------------------------------------------------------------------------------

    def finish(self, offsets: dict[str, int]) -> None:
        """Every transaction is all or nothing, offsets included; offsets: what the groups say, by transactional id."""
        for state in self.states.values():
            if state.state in OPEN:
                raise Violation(f"{state} is open for too long")
        left = {key: [one.name for one in span] for key, span in self._open.items() if span}
        if left:
            raise Violation(f"nobody ends {left}")
        for attempt in self.attempts:
            expected = attempt.acknowledged if attempt.outcome else Counter()
            if attempt.told and not attempt.outcome and (attempt.acknowledged or attempt.has_offset):
                raise Violation(f"{attempt.name} is told that it is committed, and is {attempt.outcome}")
            if attempt.visible != expected:
                raise Violation(f"of {attempt.name} {attempt.visible} is visible, it should be {expected}")
        for transactional_id, offset in offsets.items():
            self._effects(transactional_id, offset)

    def _effects(self, transactional_id: str, offset: int) -> None:
        counts = Counter(self._committed_positions(transactional_id))
        if counts != Counter(range(offset)):
            raise Violation(f"{transactional_id} has offset {offset}, and these inputs have an effect: {counts}")

    def _committed_positions(self, transactional_id: str) -> Iterable[int]:
        return (
            one.position
            for one in self.attempts
            if one.transactional_id == transactional_id and one.position is not None and one.outcome
        )
