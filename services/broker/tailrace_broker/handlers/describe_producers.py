"""DescribeProducers v0 (KIP-664): the producers that a log remembers, for who looks for a hanging transaction.

Every replica answers, not the leader alone, as in Kafka: a follower's state is worth a look as well. Who is remembered
is told until it expires (producer.id.expiration.ms, looked after with retention). Kafka's answers have no limit; here a
partition that is asked for twice is answered once, and one whose producers the answer has no room for is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import ApiError, ErrorCode
from tailrace.log.producers.state import ProducerEntry
from tailrace.metadata import names
from tailrace.net.context import Context
from tailrace.net.limits.answer_budget import TOO_LARGE, AnswerBudget, RefusalTexts
from tailrace.wire.encode_buffer import EncodeBuffer
from tailrace.wire.hot.producers import (
    NO_SEQUENCE,
    ROW,
    DescribedProducer,
    PartitionProducers,
    encode_describe_producers,
    pack,
)
from tailrace.wire.messages import DescribeProducersRequest
from tailrace_broker.handlers.rows import each_row

if TYPE_CHECKING:
    from tailrace_broker.partitions.topics import Topics

_NO_TOPIC = "This server does not host this topic-partition."


async def handle(request: DescribeProducersRequest, context: Context, topics: Topics) -> EncodeBuffer:
    """The answer's body, with one row per partition that is asked for; errors are per partition."""
    described, texts, budget = [], RefusalTexts(), AnswerBudget()
    for topic in request.topics:  # what is named twice is named once by now (wire/repeats.py)
        wrong = _wrong_topic(topics, topic.name)
        found = []
        async for index in each_row(topic.partition_indexes):
            if wrong is None:
                found.append(await _describe(topics, topic.name, index, budget, texts))
            else:
                found.append(PartitionProducers(index, int(wrong.code), texts.of(wrong.message)))
        described.append((topic.name, found))
    return encode_describe_producers(described)


def _wrong_topic(topics: Topics, name: str) -> ApiError | None:
    """What every partition of it is refused with."""
    if (why := names.refusal(name)) is not None:
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    if name.encode() not in topics.by_name:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NO_TOPIC)
    return None


async def _describe(
    topics: Topics, topic: str, index: int, budget: AnswerBudget, texts: RefusalTexts
) -> PartitionProducers:
    partition, code = topics.readable(topic.encode(), index, by_id=False)
    if partition is None:
        return PartitionProducers(index, int(code))
    try:
        entries = partition.log.producers.entries
    except ApiError as refused:
        return _refused(index, refused)
    except OSError:
        return PartitionProducers(index, int(ErrorCode.KAFKA_STORAGE_ERROR))
    if not budget.take(ROW.size * len(entries)):
        return PartitionProducers(index, int(ErrorCode.MESSAGE_TOO_LARGE), texts.of(TOO_LARGE))
    known = [
        _producer(producer_id, entry)
        async for producer_id in each_row(list(entries))
        if (entry := entries.get(producer_id)) is not None
    ]
    return PartitionProducers(index, 0, None, pack(known))


def _producer(producer_id: int, entry: ProducerEntry) -> DescribedProducer:
    last = entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE
    return DescribedProducer(
        producer_id,
        entry.producer_epoch,
        last,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
    )


def _refused(index: int, why: ApiError) -> PartitionProducers:
    return PartitionProducers(index, int(why.code), why.message)
