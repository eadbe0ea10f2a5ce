"""What a leader asks coordinators, and which error a Produce of each version gets (KIP-890)."""

import pytest

from tailrace.errors import ErrorCode
from tailrace.wire.messages import AddPartitionsToTxnResponse
from tailrace_broker.transactions.add_partitions import Asked, answers, produce_error, refused_whole, request

E = ErrorCode
RETRIED = (E.NETWORK_EXCEPTION, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR)


@pytest.mark.parametrize("version", [3, 10, 11, 12, 13])
@pytest.mark.parametrize("code", RETRIED)
def test_a_coordinator_that_does_not_answer_is_tried_again_by_every_client(code: E, version: int) -> None:
    told, message = produce_error(code, version)
    assert told == E.NOT_ENOUGH_REPLICAS and code.name in str(message)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (E.CONCURRENT_TRANSACTIONS, (E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS, E.CONCURRENT_TRANSACTIONS)),
        (E.TRANSACTION_ABORTABLE, (E.INVALID_TXN_STATE, E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE)),
        (E.PRODUCER_FENCED, (E.INVALID_PRODUCER_EPOCH,) * 3),
        (E.INVALID_PRODUCER_EPOCH, (E.INVALID_PRODUCER_EPOCH,) * 3),
        (E.INVALID_TXN_STATE, (E.INVALID_TXN_STATE,) * 3),
        (E.INVALID_PRODUCER_ID_MAPPING, (E.INVALID_PRODUCER_ID_MAPPING,) * 3),
        (E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, (E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,) * 3),
    ],
)
def test_an_error_is_told_as_versions_10_11_and_12_know_it(code: E, told: tuple[E, E, E]) -> None:
    assert tuple(produce_error(code, version)[0] for version in (10, 11, 12)) == told


def test_the_producer_is_not_told_that_a_broker_may_not_ask() -> None:
    assert refused_whole(E.CLUSTER_AUTHORIZATION_FAILED) == E.INVALID_TXN_STATE
    assert refused_whole(E.COORDINATOR_NOT_AVAILABLE) == E.COORDINATOR_NOT_AVAILABLE


def test_partitions_are_asked_for_by_transaction_and_topic() -> None:
    built = request({Asked("a", 7, 1, True): [("t", 0), ("u", 1), ("t", 2)], Asked("b", 8, 2, False): [("t", 0)]})
    first, second = built.transactions
    assert (first.transactional_id, first.producer_id, first.producer_epoch, first.verify_only) == ("a", 7, 1, True)
    assert [(topic.name, list(topic.partitions)) for topic in first.topics] == [("t", [0, 2]), ("u", [1])]
    assert (second.transactional_id, second.verify_only) == ("b", False)


def test_answers_are_found_by_transaction_and_partition() -> None:
    result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
    topic = result.AddPartitionsToTxnTopicResult
    row = topic.AddPartitionsToTxnPartitionResult
    rows = [row(partition_index=0, partition_error_code=0), row(partition_index=1, partition_error_code=48)]
    response = AddPartitionsToTxnResponse(
        error_code=0,
        results_by_transaction=[
            result(transactional_id="a", topic_results=[topic(name="t", results_by_partition=rows)])
        ],
    )
    assert answers(response) == {"a": {("t", 0): 0, ("t", 1): 48}}
