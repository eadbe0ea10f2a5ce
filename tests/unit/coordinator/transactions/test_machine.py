"""Transactional ids: epochs, fencing, outcomes, retries, timeouts, and what a later owner goes on with."""

import pytest

from support.transactional_ids import NEW, Ids
from tailrace.coordination.transaction_records import Status
from tailrace.errors import ErrorCode
from tailrace.state import ProducerIdAndEpoch
from tailrace_coordinator.transactions.config import TransactionConfig
from tailrace_coordinator.transactions.decision import EXPIRY_KEY, TIMEOUTS_KEY
from tailrace_coordinator.transactions.machine import ListTransactionsFilter

P, Q = ("orders", 0), ("orders", 1)
LAST = 2**15 - 2  # the last epoch that a client is given


def begun(version: int = 0) -> tuple[Ids, ProducerIdAndEpoch]:
    """An id with a transaction of one partition."""
    ids = Ids()
    producer = ids.init()
    assert ids.add(producer, P, version=version) is ErrorCode.NONE
    return ids, producer


def test_each_init_takes_the_next_epoch_and_fences_the_one_before() -> None:
    ids = Ids()
    first, second = ids.init(), ids.init()
    assert (first, second) == (ProducerIdAndEpoch(1001, 0), ProducerIdAndEpoch(1001, 1))
    assert ids.add(first, P) is ErrorCode.PRODUCER_FENCED
    assert ids.end(first, True) is ErrorCode.PRODUCER_FENCED
    assert ids.init(first) is ErrorCode.PRODUCER_FENCED
    assert ids.add(second, P) is ErrorCode.NONE


def test_a_producer_that_goes_on_after_an_error_may_ask_again() -> None:
    ids = Ids()
    first = ids.init()
    second = ids.init(first)
    assert second == ProducerIdAndEpoch(1001, 1)
    assert ids.init(first) == second  # the answer was lost
    assert ids.reloaded().init(first) == second  # with its coordinator (KAFKA-20357)
    assert ids.init(second) == ProducerIdAndEpoch(1001, 2)
    assert ids.init(ProducerIdAndEpoch(999, 0)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_beyond_the_limit_is_refused(timeout_ms: int) -> None:
    assert Ids().init(timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_another_producer_of_the_id_waits_for_the_abort_of_what_is_open() -> None:
    ids, producer = begun()
    assert ids.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert ids.state().state is Status.PREPARE_ABORT
    assert [(one.producer_epoch, one.partitions) for one in ids.markers] == [(1, (("orders", (0,)),))]
    assert ids.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert ids.end(producer, True) is ErrorCode.PRODUCER_FENCED
    ids.complete()
    assert ids.init() == ProducerIdAndEpoch(producer.producer_id, 2)


@pytest.mark.parametrize("commit", [True, False])
def test_an_outcome_is_decided_once_and_told_again_to_who_asks_again(commit: bool) -> None:
    ids, producer = begun()
    assert ids.end(producer, commit) == producer
    assert ids.end(producer, commit) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert ids.end(producer, not commit) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert ids.add(producer, Q) is ErrorCode.CONCURRENT_TRANSACTIONS
    ids.complete()
    assert ids.end(producer, commit) == producer
    assert ids.end(producer, not commit) is ErrorCode.INVALID_TXN_STATE
    assert ids.add(producer, Q) is ErrorCode.NONE
    assert ids.state().partitions == (("orders", (1,)),)


def test_what_is_there_already_is_written_before_it_is_said() -> None:
    # A coordinator that lost its shard without hearing of it may know an earlier transaction of the same producer id
    # and epoch: its "yes" would be about that one. It cannot write any more, so nobody hears it.
    ids, producer = begun()
    state, written = ids.state(), len(ids.log)
    assert ids.add(producer, P) is ErrorCode.NONE
    assert (ids.state(), len(ids.log)) == (state, written + 1)
    ids.end(producer, True)
    ids.complete()
    state, written = ids.state(), len(ids.log)
    assert ids.end(producer, True) == producer
    assert (ids.state(), len(ids.log)) == (state, written + 1)


def test_what_is_told_twice_of_one_transaction_does_not_complete_the_next() -> None:
    """Up to version 1 both have one producer id, one epoch, and here one time: the next one has no marker yet."""
    ids, producer = begun()
    ids.end(producer, True)
    told = ids.markers
    ids.complete()
    ids.add(producer, P)
    ids.end(producer, True)
    later, ids.markers = ids.markers, told
    ids.complete()
    assert ids.state().state is Status.PREPARE_COMMIT
    ids.markers = later
    ids.complete()
    assert ids.state().state is Status.COMPLETE_COMMIT


def test_nothing_is_ended_where_nothing_was_begun() -> None:
    ids = Ids()
    producer = ids.init()
    assert ids.end(producer, True) is ErrorCode.INVALID_TXN_STATE
    assert ids.end(producer, False) is ErrorCode.INVALID_TXN_STATE
    assert ids.end(ProducerIdAndEpoch(7, 0), True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert ids.end(producer, True, name="other") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert ids.add(ProducerIdAndEpoch(7, 0), P) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("commit", [True, False])
def test_of_version_2_each_end_takes_the_next_epoch_and_a_retry_has_the_one_before(commit: bool) -> None:
    ids, producer = begun(version=2)
    after = ProducerIdAndEpoch(producer.producer_id, 1)
    assert ids.end(producer, commit, version=2) == after
    assert ids.markers[0].producer_epoch == 1
    assert ids.end(producer, commit, version=2) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert ids.end(producer, not commit, version=2) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert ids.end(after, False, version=2) is ErrorCode.CONCURRENT_TRANSACTIONS
    ids.complete()
    assert ids.end(producer, commit, version=2) == after
    other = ids.end(producer, not commit, version=2)
    assert other is (ErrorCode.INVALID_TXN_STATE if commit else ErrorCode.PRODUCER_FENCED)
    assert ids.add(producer, P, version=2) is ErrorCode.PRODUCER_FENCED
    assert ids.end(after, True, version=2) is ErrorCode.INVALID_TXN_STATE


def test_of_version_2_an_abort_of_nothing_takes_an_epoch_and_is_complete_at_once() -> None:
    ids = Ids()
    producer = ids.init()
    assert ids.end(producer, False, version=2) == ProducerIdAndEpoch(producer.producer_id, 1)
    assert (ids.state().state, ids.markers) == (Status.COMPLETE_ABORT, [])
    assert ids.end(producer, False, version=2) == ProducerIdAndEpoch(producer.producer_id, 1)  # a retry
    assert ids.end(ProducerIdAndEpoch(producer.producer_id, 1), False, version=2) == ProducerIdAndEpoch(
        producer.producer_id, 2
    )


def with_epoch(epoch: int) -> tuple[Ids, ProducerIdAndEpoch]:
    ids = Ids()
    producer = ids.init()
    while producer.producer_epoch < epoch:
        producer = ids.init()
    return ids, producer


def test_used_up_epochs_take_another_producer_id() -> None:
    ids, producer = with_epoch(LAST)
    after = ids.init(producer)
    assert after == ProducerIdAndEpoch(1002, 0)
    assert ids.init(producer) == ProducerIdAndEpoch(1002, 0)  # its answer was lost
    assert ids.reloaded().init(producer) == ProducerIdAndEpoch(1002, 0)
    assert ids.reloaded().init(after) == ProducerIdAndEpoch(1002, 1)


def test_of_version_2_an_end_may_take_another_producer_id() -> None:
    ids, producer = with_epoch(LAST)
    ids.add(producer, P, version=2)
    after = ids.end(producer, True, version=2)
    assert after == ProducerIdAndEpoch(1002, 0)
    assert (ids.markers[0].producer_id, ids.markers[0].producer_epoch) == (1001, LAST + 1)
    ids.complete()
    assert ids.end(producer, True, version=2) == after
    assert ids.end(producer, False, version=2) is ErrorCode.INVALID_TXN_STATE
    assert ids.add(after, P, version=2) is ErrorCode.NONE
    again = ids.reloaded()
    assert (again.state().producer_id, again.state().previous_producer_id) == (1002, 1001)


def test_who_was_told_the_next_producer_id_waits_until_it_counts() -> None:
    """Its answer came before the markers, and INVALID_PRODUCER_ID_MAPPING would end the producer."""
    ids, producer = with_epoch(LAST)
    ids.add(producer, P, version=2)
    after = ids.end(producer, True, version=2)
    assert ids.add(after, P, version=2) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert ids.init(after) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert ids.end(after, False, version=2) is ErrorCode.CONCURRENT_TRANSACTIONS
    ids.complete()
    assert ids.add(after, P, version=2) is ErrorCode.NONE
    assert ids.end(after, False, version=2) == ProducerIdAndEpoch(1002, 1)


def test_a_fence_at_the_last_epoch_does_not_go_beyond_what_a_record_holds() -> None:
    ids, producer = with_epoch(LAST)
    ids.add(producer, P)
    assert ids.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert ids.state().producer_epoch == LAST + 1
    ids.complete()
    assert ids.reloaded().init().producer_epoch == 0
    after = ids.init(producer)
    assert after == ProducerIdAndEpoch(1002, 0)  # the fence's own epoch is never given
    assert ids.init(producer) == after


def test_of_version_2_who_ends_what_a_fence_at_the_last_epoch_aborted_gets_another_producer_id() -> None:
    """No client is given the fence's epoch: nothing could follow it in a record."""
    ids, producer = with_epoch(LAST)
    ids.add(producer, P, version=2)
    ids.now_ms += 60_000
    ids.timer(TIMEOUTS_KEY)
    ids.complete()
    assert ids.end(producer, True, version=2) is ErrorCode.PRODUCER_FENCED
    after = ids.end(producer, False, version=2)
    assert after == ProducerIdAndEpoch(1002, 0)
    assert ids.end(producer, False, version=2) == after  # its answer was lost
    assert ids.add(after, P, version=2) is ErrorCode.NONE
    assert ids.end(after, True, version=2) == ProducerIdAndEpoch(1002, 1)


def test_a_transaction_has_a_bound_of_partitions_and_of_bytes() -> None:
    """One partition more would be a record of `__transaction_state` that holds them all once more."""
    ids = Ids(TransactionConfig(max_partitions=3, max_record_bytes=300))
    producer = ids.init()
    assert ids.add(producer, P, Q, P, ("orders", 2)) is ErrorCode.NONE
    assert ids.add(producer, ("orders", 3)) is ErrorCode.INVALID_REQUEST
    assert ids.add(producer, Q, P) is ErrorCode.NONE  # they are there already
    assert ids.state().partitions == (("orders", (0, 1, 2)),)
    assert ids.end(producer, True) == producer
    ids.complete()
    assert ids.add(producer, ("x" * 249, 0)) is ErrorCode.INVALID_REQUEST
    assert ids.state().state is Status.COMPLETE_COMMIT


def test_a_leader_learns_which_partitions_a_transaction_has() -> None:
    ids, producer = begun()
    assert ids.verify(producer, P, Q) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert ids.verify(ProducerIdAndEpoch(producer.producer_id, 5), P) is ErrorCode.PRODUCER_FENCED
    assert ids.verify(producer, P, name="other") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    ids.end(producer, True)
    assert ids.verify(producer, P) is ErrorCode.CONCURRENT_TRANSACTIONS
    ids.complete()
    assert ids.verify(producer, P) == [ErrorCode.TRANSACTION_ABORTABLE]


def test_what_is_past_its_timeout_is_aborted_and_its_producer_fenced() -> None:
    ids, producer = begun()
    ids.now_ms += 59_999
    ids.timer(TIMEOUTS_KEY)
    assert ids.state().state is Status.ONGOING
    ids.now_ms += 1
    ids.timer(TIMEOUTS_KEY)
    assert ids.state().state is Status.PREPARE_ABORT
    ids.complete()
    assert ids.add(producer, P) is ErrorCode.PRODUCER_FENCED
    assert ids.reloaded().init(producer) == ProducerIdAndEpoch(producer.producer_id, 1)  # it goes on (KIP-360)
    assert ids.init() == ProducerIdAndEpoch(producer.producer_id, 2)
    assert ids.init(producer) is ErrorCode.PRODUCER_FENCED


def test_an_idle_id_is_forgotten_and_one_at_work_is_not() -> None:
    ids = Ids(TransactionConfig(transactional_id_expiration_ms=1000))
    ids.init(name="idle")
    ids.add(ids.init(), P)
    ids.now_ms += 1000
    ids.timer(EXPIRY_KEY)
    assert ids.listed() == ["t"]
    assert ids.reloaded().listed() == ["t"]
    assert ids.add(ProducerIdAndEpoch(1001, 0), P, name="idle") is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("commit", [True, False])
def test_the_next_owner_sends_the_markers_that_its_predecessor_owed(commit: bool) -> None:
    ids, producer = begun()
    ids.add(producer, Q)
    ids.end(producer, commit)
    after = ids.reloaded()
    assert after.markers == ids.markers
    after.complete()
    assert after.state().state is (Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT)
    assert after.reloaded().markers == []


def test_a_late_completion_does_not_end_another_transaction() -> None:
    ids, producer = begun()
    ids.end(producer, True)
    late = list(ids.markers)
    ids.complete()
    ids.add(producer, P)
    ids.end(producer, False)
    ids.markers = late
    ids.complete()
    assert ids.state().state is Status.PREPARE_ABORT


def test_transactions_are_listed_by_state_producer_and_age() -> None:
    ids, producer = begun()
    ids.init(name="idle")
    ids.now_ms += 500

    def wanted(states: tuple[Status, ...] = (), producers: tuple[int, ...] = (), longer_than_ms: int = -1) -> list[str]:
        return ids.listed(
            ListTransactionsFilter(frozenset(states), frozenset(producers), longer_than_ms, lambda _: True)
        )

    assert sorted(wanted()) == ["idle", "t"]
    assert wanted((Status.ONGOING,)) == ["t"]
    assert wanted(producers=(producer.producer_id,)) == ["t"]
    assert "t" not in wanted(longer_than_ms=500)
    assert "t" in wanted(longer_than_ms=499)
    assert ids.listed(ListTransactionsFilter(frozenset(), frozenset(), -1, lambda name: name == "idle")) == ["idle"]


def test_a_new_id_has_a_record_that_says_so() -> None:
    ids = Ids()
    assert ids.init(NEW, name="x") == ProducerIdAndEpoch(1001, 0)
    assert ids.reloaded().state("x").state is Status.EMPTY
