"""The relay with real sockets: bytes pass as they come, order holds, nothing grows without bound."""

from tailrace.wire import codec
from tailrace.wire import messages as m


def produce(correlation_id: int, payload: bytes, acks: int = 1, version: int = 9) -> bytes:
    topic = m.ProduceRequest.TopicProduceData
    request = m.ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[topic(name="t", partition_data=[topic.PartitionProduceData(index=0, records=payload)])],
    )
    return codec.encode_request(request, version, correlation_id, "test")
