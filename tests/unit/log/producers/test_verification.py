"""KIP-890 in a log: who may begin a transaction, with which sequence number, and what a marker's epoch must be."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.logs import NOW, open_log, some_batch
from tailrace.errors import ErrorCode
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.log import Log, LogAppendResult
from tailrace.log.producers.verification import MOST_KEPT, Verification, Verifications
from tailrace.log.segment.transactions import Marker, marker_batch
from tailrace.records.batch import LAST_PRODUCER_EPOCH
from tailrace.records.markers import ABORT, COMMIT

E = ErrorCode
PRODUCER = 7


def ask(log: Log, sequence: int = 0, epoch: int = 0, *, bumps: bool = False) -> Verification:
    return log.producers.verifications.begin(PRODUCER, epoch, sequence, NOW, supports_epoch_bump=bumps)


def send(
    log: Log, sequence: int = 0, epoch: int = 0, *, verified: Verification | None = None, transactional: bool = True
) -> LogAppendResult:
    """A client's batch, under a verification that was answered."""
    batch = some_batch(
        b"v", producer_id=PRODUCER, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )
    if verified is not None:
        verified.is_verified = True
    (appended,) = log.append([batch], 0, NOW)
    if verified is not None:
        verified.is_verified = False
    return appended


def end(
    log: Log, epoch: int = 0, *, kind: int = COMMIT, coordinator_epoch: int = 0, version: int = 0
) -> LogAppendResult:
    marker = marker_batch(PRODUCER, epoch, Marker(kind, coordinator_epoch), NOW, version)
    return log.append([marker], 0, NOW, from_client=False)[0]


def begun(epoch: int = 0) -> Log:
    log = open_log(MemoryFilesystem())
    assert send(log, epoch=epoch, verified=ask(log, epoch=epoch)).error_code == 0
    return log


def test_nothing_begins_a_transaction_before_the_coordinator_has_answered() -> None:
    log = open_log(MemoryFilesystem())
    assert send(log).error_code == E.INVALID_TXN_STATE
    asked = ask(log)
    assert send(log).error_code == E.INVALID_TXN_STATE
    assert send(log, verified=asked).error_code == 0
    assert send(log, 1).error_code == 0, "what is open goes on"
    assert not log.producers.verifications


@pytest.mark.parametrize("again", [False, True])
def test_a_marker_takes_back_what_was_asked_before_it(again: bool) -> None:
    log = open_log(MemoryFilesystem())
    asked = ask(log)
    assert end(log, kind=ABORT).error_code == 0
    if again:
        ask(log)
    assert send(log, verified=asked).error_code == E.INVALID_TXN_STATE


def test_a_repeated_batch_of_an_ended_transaction_is_answered_with_the_first() -> None:
    log = begun()
    end(log)
    assert send(log)[:3] == (0, 0, 0)
    assert log.log_end_offset == 2


def test_a_batch_does_not_come_before_one_that_was_refused_while_it_asked() -> None:
    log = open_log(MemoryFilesystem())
    ask(log, 0)
    assert send(log, 5, verified=ask(log, 5)).error_code == E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 0, verified=ask(log, 0)).error_code == 0


@pytest.mark.parametrize(("bumps", "code"), [(False, E.NONE), (True, E.OUT_OF_ORDER_SEQUENCE_NUMBER)])
def test_in_version_2_an_unknown_producer_begins_with_sequence_0(bumps: bool, code: E) -> None:
    log = open_log(MemoryFilesystem())
    assert send(log, 5, verified=ask(log, 5, bumps=bumps)).error_code == code


@pytest.mark.parametrize(
    ("sequence", "epoch", "code"),
    [
        (0, 1, E.NONE),
        (1, 1, E.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (0, 0, E.INVALID_PRODUCER_EPOCH),
        (1, 0, E.INVALID_PRODUCER_EPOCH),
        (0, 2, E.NONE),
        (1, 2, E.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
@pytest.mark.parametrize("transactional", [False, True])
def test_after_a_marker_with_the_next_epoch(sequence: int, epoch: int, code: E, transactional: bool) -> None:
    log = begun()
    assert end(log, epoch=1, version=2).error_code == 0
    asked = ask(log, sequence, epoch) if transactional else None
    assert send(log, sequence, epoch, verified=asked, transactional=transactional).error_code == code


def test_after_a_marker_with_the_same_epoch_sequences_go_on() -> None:
    log = begun()
    end(log)
    assert send(log, 2, verified=ask(log, 2)).error_code == E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 1, verified=ask(log, 1)).error_code == 0


def test_a_batch_of_a_later_epoch_needs_an_answer_though_an_earlier_transaction_is_open() -> None:
    log = begun()
    assert send(log, 0, 1).error_code == E.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("epoch", "version", "code"),
    [
        (3, 0, E.NONE),
        (3, 1, E.NONE),
        (3, 2, E.INVALID_PRODUCER_EPOCH),
        (4, 2, E.NONE),
        (2, 2, E.INVALID_PRODUCER_EPOCH),
        (2, 0, E.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_markers_epoch_for_a_transaction_of_epoch_3(epoch: int, version: int, code: E) -> None:
    assert end(begun(3), epoch, version=version).error_code == code


@pytest.mark.parametrize("version", [0, 2])
def test_a_marker_may_come_again(version: int) -> None:
    log = begun()
    for _ in range(2):
        assert end(log, 1, version=version).error_code == 0


def test_the_last_epoch_has_none_above_it() -> None:
    assert end(begun(LAST_PRODUCER_EPOCH), LAST_PRODUCER_EPOCH, version=2).error_code == 0


def test_a_marker_of_an_earlier_coordinator_is_fenced() -> None:
    log = begun()
    assert end(log, coordinator_epoch=5).error_code == 0
    assert end(log, coordinator_epoch=4).error_code == E.TRANSACTION_COORDINATOR_FENCED


def test_a_producers_batch_has_a_sequence_number() -> None:
    log = open_log(MemoryFilesystem())
    assert send(log, -1, transactional=False).error_code == E.INVALID_RECORD


def test_two_batches_of_one_append_need_one_answer() -> None:
    log = open_log(MemoryFilesystem())
    asked = ask(log)
    asked.is_verified = True
    batches = [
        some_batch(b"v", producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence, transactional=True)
        for sequence in range(3)
    ]
    assert [one.error_code for one in log.append(batches, 0, NOW)] == [0, 0, 0]
    assert log.last_stable_offset(3) == 0


@pytest.mark.parametrize(
    ("bumps", "marker_epoch", "overtakes"),
    [(False, 3, True), (False, 4, True), (True, 3, False), (True, 4, False), (True, 5, True)],
)
def test_a_marker_of_the_transaction_before_does_not_overtake_an_answer(
    bumps: bool, marker_epoch: int, overtakes: bool
) -> None:
    """Of version 2 it has the epoch that asks: its coordinator waits for it."""
    verifications = Verifications()
    found = verifications.begin(PRODUCER, 4, 0, 0, supports_epoch_bump=bumps)
    verifications.ended(PRODUCER, marker_epoch)
    assert (verifications.get(PRODUCER) is not found) == overtakes


def test_the_oldest_questions_make_room_and_expire() -> None:
    verifications = Verifications()
    for number in range(MOST_KEPT + 1):
        verifications.begin(number, 0, 0, number, supports_epoch_bump=False)
    assert len(verifications) == MOST_KEPT and verifications.get(0) is None
    verifications.expire(MOST_KEPT, 10)
    assert len(verifications) == 10


class Step(NamedTuple):
    """What a producer and its coordinator do next."""

    kind: str
    sequence: int
    epoch: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["ask", "answer", "send", "commit", "abort"]),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=40,
)


@given(STEPS, st.booleans())
def test_every_transaction_in_a_log_was_asked_for_since_the_last_marker(steps: list[Step], bumps: bool) -> None:
    """However questions, answers, batches and markers interleave: a transaction begins under a question that came
    behind the last marker, epochs never go back, and none is open behind its marker.
    """
    log = open_log(MemoryFilesystem())
    asked = list[tuple[Verification, int]]()
    markers = list[int]()  # their epochs
    epoch, was_open = 0, False
    for step in steps:
        if step.kind == "ask":
            asked.append((ask(log, step.sequence, step.epoch, bumps=bumps), len(markers)))
        elif step.kind == "answer" and asked:
            verification, since = asked.pop(step.sequence % len(asked))
            end_before = log.log_end_offset
            taken = send(log, step.sequence, step.epoch, verified=verification)
            if taken.base_offset == end_before and not was_open:
                before = markers[since:]  # of version 2 one may be of the transaction before
                assert all(bumps and one <= verification.producer_epoch for one in before)
        elif step.kind == "send":
            end_before = log.log_end_offset
            taken = send(log, step.sequence, step.epoch)
            assert was_open or taken.base_offset < end_before, "begun without an answer"
        elif step.kind in ("commit", "abort"):
            kind = COMMIT if step.kind == "commit" else ABORT
            if end(log, step.epoch, kind=kind, version=2 * bumps).error_code == 0:
                markers.append(step.epoch)
                assert not len(log.producers.transactions)
        entry = log.producers.entries.get(PRODUCER)
        if entry is not None:
            assert entry.producer_epoch >= epoch
            epoch = entry.producer_epoch
        was_open = bool(len(log.producers.transactions))
        assert (log.last_stable_offset(log.log_end_offset) < log.log_end_offset) is was_open
