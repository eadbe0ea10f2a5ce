"""Requests about ids of several owners: the answer of one that nobody owns is made of all its rows."""

import threading
from typing import Any, cast

import pytest

from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.net.large import Large
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace.wire.apis import ApiKey
from tailrace.wire.refuse import not_added
from tailrace_gateway.forward import several_ids
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.relay.client import ClientLink
from tailrace_gateway.relay.requests import Frame

VERSION = 5
MANY = 10_000


class NobodyOwns:
    """A gateway of a cluster without coordinators."""

    image = MetadataImage()
    boot_id = ""

    def __init__(self) -> None:
        self.large = Large()


def add_partitions(transactions: int) -> Frame:
    transaction = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
    topic = transaction.AddPartitionsToTxnTopic
    asked = [
        transaction(
            transactional_id=f"id-{number}",
            producer_id=number,
            producer_epoch=0,
            verify_only=False,
            topics=[topic(name="t", partitions=[0])],
        )
        for number in range(transactions)
    ]
    request = m.AddPartitionsToTxnRequest(
        transactions=asked,
        v3_and_below_transactional_id="",
        v3_and_below_producer_id=0,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[],
    )
    data = codec.encode_request(request, VERSION, 7, "me")
    return Frame(0, ApiKey.ADD_PARTITIONS_TO_TXN, VERSION, 7, b"me", data, cast("Any", None))


async def test_very_many_refused_transactions_are_refused_by_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = add_partitions(MANY)
    split = several_ids.split_of(frame)
    assert split is not None
    makers = set[threading.Thread]()

    def noted(topics: Any, code: int) -> list[Any]:
        makers.add(threading.current_thread())
        return not_added(topics, code)

    monkeypatch.setattr("tailrace_gateway.forward.several_ids.not_added", noted)
    gateway, connection = cast("Gateway", NobodyOwns()), cast("ClientLink", None)
    answer = await several_ids.answer(gateway, connection, frame, split)
    assert not isinstance(answer, several_ids.Only)
    key = ApiKey.ADD_PARTITIONS_TO_TXN
    response = codec.decode_response(key, VERSION, codec.response_body(key, VERSION, memoryview(answer)[4:]))
    assert [row.transactional_id for row in response.results_by_transaction] == [f"id-{n}" for n in range(MANY)]
    (topic,) = response.results_by_transaction[-1].topic_results
    assert [row.partition_error_code for row in topic.results_by_partition] == [ErrorCode.NOT_COORDINATOR]
    assert makers
    assert threading.main_thread() not in makers
