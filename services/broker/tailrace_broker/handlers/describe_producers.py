"""DescribeProducers v0 (KIP-664): the producers that a log remembers, for who looks for a hanging transaction.

Every replica answers, not the leader alone, as in Kafka: a follower's state is worth a look as well. Who is remembered
is told until it expires (producer.id.expiration.ms, looked after with retention). Kafka's answers have no limit; here a
partition that is asked for twice is answered once, so that no answer is larger than what the broker remembers, and
others have their turn while it is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import ApiError, ErrorCode
from tailrace.log.producers.state import ProducerEntry
from tailrace.metadata import names
from tailrace.net.context import Context
from tailrace.net.limits.answer_budget import RefusalTexts
from tailrace.net.pieces import ROWS_AT_ONCE, freed, in_pieces, in_turns
from tailrace.wire.encode_buffer import EncodeBuffer
from tailrace.wire.hot.producers import (
    NO_SEQUENCE,
    DescribedProducer,
    PartitionProducers,
    encoding_describe_producers,
    pack,
)
from tailrace.wire.messages import DescribeProducersRequest

if TYPE_CHECKING:
    from tailrace_broker.broker import Broker

# Between so many others have their turn: a few milliseconds. A log may have to be opened first.
PRODUCERS_AT_ONCE, _PARTITIONS_AT_ONCE = 2000, 8
_NO_TOPIC = "This server does not host this topic-partition."


async def handle(request: DescribeProducersRequest, context: Context, broker: Broker) -> EncodeBuffer:
    """The answer's body, with one row per partition that is asked for; errors are per partition."""
    topics, texts = [], RefusalTexts()
    async for topic in in_pieces(request.topics):  # what is named twice is named once by now (wire/repeats.py)
        wrong = _wrong_topic(broker, topic.name)
        found = []
        async for index in in_pieces(topic.partition_indexes, ROWS_AT_ONCE if wrong else _PARTITIONS_AT_ONCE):
            if wrong is None:
                found.append(await _describe(broker, topic.name, index))
            else:
                found.append(PartitionProducers(index, int(wrong.code), texts.of(wrong.message)))
        topics.append((topic.name, found))
    body = await in_turns(encoding_describe_producers(topics))
    await freed(topics)
    return body


def _wrong_topic(broker: Broker, name: str) -> ApiError | None:
    """What every partition of it is refused with."""
    if (why := names.refusal(name)) is not None:
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    if name.encode() not in broker.topics.by_name:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NO_TOPIC)
    return None


async def _describe(broker: Broker, topic: str, index: int) -> PartitionProducers:
    partition, code = broker.readable(topic.encode(), index, by_id=False)
    if partition is None:
        return PartitionProducers(index, int(code))
    try:
        entries = partition.log.producers.entries
    except ApiError as refused:
        return _refused(index, refused)
    except OSError:
        return PartitionProducers(index, int(ErrorCode.KAFKA_STORAGE_ERROR))
    rows, known = [], list(entries)
    for at in range(0, len(known), PRODUCERS_AT_ONCE):
        if at:
            await broker.others_first()
        ids = known[at : at + PRODUCERS_AT_ONCE]
        rows.append(pack(_producer(one, entry) for one in ids if (entry := entries.get(one)) is not None))
    return PartitionProducers(index, 0, None, b"".join(rows))


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
