"""Transactions on the wire: every code of the coordinator and of the leaders, as Apache Kafka answers it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.raw import build
from support.stage import Topic, coordinator, create_topic, unique
from support.targets import Target
from support.transactional import Transactional
from support.transactions_read import values
from support.waiting import until
from tailrace.errors import ErrorCode as E


@pytest.fixture
def one(target: Target) -> Iterator[Transactional]:
    """A transactional id of the test's own."""
    made = Transactional(target)
    yield made
    made.close()


@pytest.fixture
def topic(target: Target) -> Topic:
    return create_topic(target, partitions=2)


def read(target: Target, topic: Topic, *, committed: bool, partition: int = 0) -> list[str]:
    """The values of a partition as a reader of either isolation level sees them, by one Fetch from the start."""
    return values(target, topic, partition, committed=committed)


@pytest.mark.capability("transactions: InitProducerId takes the next epoch and fences the one before")
def test_epochs_of_a_transactional_id(one: Transactional, topic: Topic) -> None:
    assert one.init() is E.NONE
    first = one.known
    assert first[1] == 0
    assert one.init() is E.NONE
    assert one.known == (first[0], 1)
    assert one.add(topic, 0, known=first) == [E.PRODUCER_FENCED]
    assert one.add(topic, 0, known=first, version=1) == [E.INVALID_PRODUCER_EPOCH]
    assert one.end(True, known=first) is E.PRODUCER_FENCED
    assert one.end(True, known=first, version=1) is E.INVALID_PRODUCER_EPOCH
    assert one.add_offsets("g", known=first) is E.PRODUCER_FENCED
    assert one.add_offsets("g", known=first, version=1) is E.INVALID_PRODUCER_EPOCH
    second = one.known
    assert one.init(known=first) is E.PRODUCER_FENCED
    assert one.init(3, known=first) is E.INVALID_PRODUCER_EPOCH
    assert one.init(known=second) is E.NONE
    assert one.known == (first[0], 2)
    assert one.init(known=second) is E.NONE  # whose answer was lost
    assert one.known == (first[0], 2)
    assert one.init(known=(first[0] + 77, 0)) is E.PRODUCER_FENCED


@pytest.mark.capability("transactions: InitProducerId refuses what makes no sense")
def test_refusals_of_init_producer_id(one: Transactional) -> None:
    assert one.init() is E.NONE
    for timeout_ms in (0, -1, 900_001):
        assert one.init(timeout_ms=timeout_ms) is E.INVALID_TRANSACTION_TIMEOUT
    for known in ((5, -1), (-1, 5)):
        assert one.init(known=known) is E.INVALID_REQUEST
    request = build(22, transactional_id="", transaction_timeout_ms=1000)
    assert one.connection.ask(request, 4).error_code == E.INVALID_REQUEST


@pytest.mark.capability("transactions: EndTxn and its retries, of the first protocol")
@pytest.mark.parametrize("commit", [True, False])
def test_outcomes_of_the_first_protocol(one: Transactional, topic: Topic, commit: bool) -> None:
    one.init()
    assert one.end(commit) is E.INVALID_TXN_STATE
    assert one.end(commit, known=(one.producer_id + 77, 0)) is E.INVALID_PRODUCER_ID_MAPPING
    assert one.add(topic, 0, 1) == [E.NONE, E.NONE]
    assert one.add(topic, 1) == [E.NONE]
    assert one.end(commit) is E.NONE
    assert one.ended(commit) is E.NONE
    assert one.end(not commit) is E.INVALID_TXN_STATE
    one.wait_for("CompleteCommit" if commit else "CompleteAbort")
    assert one.add(topic, 0) == [E.NONE]
    assert one.state().transaction_state == "Ongoing"


@pytest.mark.capability("transactions: EndTxn and its retries, of the second protocol (KIP-890)")
@pytest.mark.parametrize("commit", [True, False])
def test_outcomes_of_the_second_protocol(one: Transactional, topic: Topic, target: Target, commit: bool) -> None:
    one.init()
    before = one.known
    assert one.end(True, version=5) is E.INVALID_TXN_STATE
    assert one.produce(topic, "a", version=12) is E.NONE  # which adds the partition
    assert one.state().transaction_state == "Ongoing"
    assert one.end(commit, version=5) is E.NONE
    assert one.known == (before[0], before[1] + 1)
    assert one.ended(commit, version=5, known=before) is E.NONE
    assert one.known == (before[0], before[1] + 1)
    lost = E.INVALID_TXN_STATE if commit or target.is_kafka else E.PRODUCER_FENCED  # KAFKA-20785
    assert one.end(not commit, version=5, known=before) is lost
    assert one.end(True, version=5) is E.INVALID_TXN_STATE
    assert one.end(False, version=5) is E.NONE  # of nothing
    assert one.known == (before[0], before[1] + 2)
    assert one.produce(topic, "late", version=12, known=before) is E.INVALID_PRODUCER_EPOCH


@pytest.mark.capability("transactions: partitions that do not exist are refused, and the rest not tried")
def test_unknown_partitions(one: Transactional, topic: Topic) -> None:
    one.init()
    assert one.add(topic, 0, 9) == [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert one.state().transaction_state == "Empty"
    assert one.add(topic, 0, known=(one.producer_id + 77, 0)) == [E.INVALID_PRODUCER_ID_MAPPING]


@pytest.mark.capability("transactions: another producer of the id aborts what is open")
def test_a_second_producer_aborts_what_the_first_began(one: Transactional, topic: Topic, target: Target) -> None:
    one.init()
    first = one.known
    one.add(topic, 0)
    assert one.produce(topic, "a") is E.NONE
    assert one.again() is E.NONE
    assert one.producer_epoch > first[1] + 1
    assert one.end(True, known=first) is E.PRODUCER_FENCED
    assert one.produce(topic, "b", known=first) is E.INVALID_PRODUCER_EPOCH
    assert until(lambda: read(target, topic, committed=True) == [] or None, "the abort")


@pytest.mark.capability("transactions: a partition takes only what a transaction has (KIP-890)")
def test_a_leader_asks_whether_the_transaction_has_the_partition(one: Transactional, topic: Topic) -> None:
    one.init()
    assert one.produce(topic, "a") is E.TRANSACTION_ABORTABLE
    assert one.produce(topic, "a", name=None) is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    one.add(topic, 0)
    assert one.produce(topic, "a") is E.NONE
    assert one.produce(topic, "b") is E.NONE
    assert one.end(True) is E.NONE
    one.wait_for("CompleteCommit")
    assert one.produce(topic, "c") is not E.NONE


@pytest.mark.capability("transactions: the code of a batch that no transaction has, by Produce version")
@pytest.mark.parametrize(
    ("version", "code"), [(9, E.INVALID_TXN_STATE), (10, E.INVALID_TXN_STATE), (11, E.TRANSACTION_ABORTABLE)]
)
def test_a_batch_without_a_transaction(one: Transactional, topic: Topic, version: int, code: E) -> None:
    one.init()
    assert one.produce(topic, "a", version=version) is code


@pytest.mark.capability("transactions: read_committed sees what was committed, in order")
def test_readers_see_what_was_committed(one: Transactional, topic: Topic, target: Target) -> None:
    one.init()
    for value, commit in (("a", True), ("b", False), ("c", True)):
        assert one.begun(topic, 0) == [E.NONE]
        assert one.produce(topic, value) is E.NONE
        assert one.end(commit) is E.NONE
    one.begun(topic, 0)
    one.produce(topic, "open")
    until(lambda: read(target, topic, committed=True) == ["a", "c"] or None, "the commits")
    assert read(target, topic, committed=False) == ["a", "b", "c", "open"]


@pytest.mark.capability("transactions: offsets count from the commit on (KIP-98, KIP-447)")
def test_offsets_within_a_transaction(one: Transactional, topic: Topic, target: Target) -> None:
    group = unique("group")
    node = coordinator(target, group)
    one.init()

    def commit(offset: int, version: int = 3) -> E:
        topics = [{"name": topic.name, "partitions": [{"partition_index": 0, "committed_offset": offset}]}]
        request = build(
            28,
            transactional_id=one.name,
            group_id=group,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            topics=topics,
        )
        return E(target.ask(request, version, node).topics[0].partitions[0].error_code)

    def fetched(*, stable: bool) -> tuple[int, E]:
        groups = [{"group_id": group, "topics": [{"name": topic.name, "partition_indexes": [0]}]}]
        row = target.ask(build(9, groups=groups, require_stable=stable), 8, node).groups[0].topics[0].partitions[0]
        return row.committed_offset, E(row.error_code)

    assert commit(5) is E.INVALID_TXN_STATE
    assert commit(5, version=4) is E.TRANSACTION_ABORTABLE
    for offset, committed, expected in ((5, True, 5), (9, False, 5)):
        until(lambda: one.add_offsets(group) is E.NONE or None, "the transaction before")
        assert commit(offset) is E.NONE
        assert fetched(stable=True) == (-1, E.UNSTABLE_OFFSET_COMMIT)
        assert one.end(committed) is E.NONE
        until(lambda: fetched(stable=True)[1] is E.NONE or None, "the marker")
        assert fetched(stable=True) == (expected, E.NONE)


@pytest.mark.capability("transactions: DescribeTransactions and ListTransactions (KIP-664)")
def test_what_is_told_of_a_transaction(one: Transactional, topic: Topic) -> None:
    one.init()
    one.add(topic, 0, 1)
    row = one.state()
    assert (row.error_code, row.transaction_state, row.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert (row.producer_id, row.producer_epoch) == one.known
    assert [(t.topic, sorted(t.partitions)) for t in row.topics] == [(topic.name, [0, 1])]
    nobody = one.connection.ask(build(65, transactional_ids=[unique("nobody"), ""]), 0).transaction_states
    assert [E(found.error_code) for found in nobody] == [E.TRANSACTIONAL_ID_NOT_FOUND, E.INVALID_REQUEST]

    def listed(version: int = 2, **fields: object) -> list[str]:
        answer = one.connection.ask(build(66, **fields), version)
        return [found.transactional_id for found in answer.transaction_states]

    assert one.name in listed()
    assert one.name in listed(state_filters=["Ongoing"])
    assert one.name not in listed(state_filters=["Empty"])
    assert one.name in listed(producer_id_filters=[one.producer_id])
    assert listed(transactional_id_pattern=f"{one.name[:-2]}.*") == [one.name]
    assert one.name not in listed(duration_filter=60_000)
    answer = one.connection.ask(build(66, state_filters=["Ongoing", "Nonsense"]), 0)
    assert answer.unknown_state_filters == ["Nonsense"]
    assert one.connection.ask(build(66, transactional_id_pattern="("), 2).error_code == E.INVALID_REGULAR_EXPRESSION
