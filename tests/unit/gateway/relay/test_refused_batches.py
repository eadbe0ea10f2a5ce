"""What a client had sent behind a batch that the gateway refused is refused, until the client begins again."""

from __future__ import annotations

from support.broker import TOPIC_ID, batch
from tailrace.log.producers.state import MAX_SEQUENCE
from tailrace.wire.messages import ProduceRequest
from tailrace_gateway.relay.refused_batches import RefusedBatches


def produce(sequence: int, *, partition: int = 0, producer_id: int = 9, epoch: int = 0) -> ProduceRequest:
    data = ProduceRequest.TopicProduceData
    records = batch(b"a", b"b", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    row = data.PartitionProduceData(index=partition, records=records)
    return ProduceRequest(acks=-1, timeout_ms=1, topic_data=[data(name="t", topic_id=TOPIC_ID, partition_data=[row])])


def test_a_row_of_batches_behind_a_refused_one_is_known_by_where_it_goes_on() -> None:
    refused = RefusedBatches()
    assert not refused.precede(produce(2))
    refused.refused(produce(0))
    assert refused.precede(produce(2))
    refused.refused(produce(2))
    assert refused.precede(produce(4))
    assert not refused.precede(produce(0)), "the client begins again"
    assert not refused.precede(produce(2)), "a second try, or one that gave the first batch up"
    refused.clear()
    assert not refused.precede(produce(4))


def test_others_are_not_meant() -> None:
    refused = RefusedBatches()
    refused.refused(produce(0))
    for other in (produce(2, partition=1), produce(2, producer_id=8), produce(2, epoch=1), produce(-1, producer_id=-1)):
        assert not refused.precede(other)
    refused.refused(produce(-1, producer_id=-1, partition=3))
    assert not refused.precede(produce(1, producer_id=-1, partition=3))


def test_sequences_wrap_and_partitions_are_bounded() -> None:
    refused = RefusedBatches()
    refused.refused(produce(MAX_SEQUENCE - 1))
    assert refused.precede(produce(0))
    for partition in range(1, 1500):
        refused.refused(produce(0, partition=partition))
    assert not refused.precede(produce(0))
    assert refused.precede(produce(2, partition=1499))
