"""The restoring task: appends a partition's archived records in order, from where the topic ends.

librdkafka writes, since Spark's own sink cannot set timestamps. A task that is run again goes on behind what is there,
so a restore can be killed and repeated; what is there must be the beginning of the archive.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tailrace_spark.refusal import Refusal

_SECONDS = 60.0


def replay(rows: Iterable[Any], settings: Mapping[str, str]) -> Iterator[tuple[str, int, int, int]]:
    """(topic, partition, records written, records that were there) for each partition of the rows. Raises Refusal."""
    for (topic, partition), together in itertools.groupby(rows, key=lambda row: (row.topic, row.partition)):
        group = iter(together)
        present, last = present_records(settings, topic, partition)
        skipped = list_last(itertools.islice(group, present))
        if present and (skipped is None or not same(skipped, last)):
            raise Refusal(f"{topic}-{partition} holds other records than the archive; restore into an empty topic.")
        yield topic, partition, write(group, settings, topic, partition), present


def present_records(settings: Mapping[str, str], topic: str, partition: int) -> tuple[int, Any]:
    """How many records the partition has had, and the last of them."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**settings, "group.id": "tailrace-restore", "enable.auto.commit": "false"})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), _SECONDS)
        if low == high:
            return high, None
        consumer.assign([TopicPartition(topic, partition, high - 1)])
        return high, consumer.poll(_SECONDS)
    finally:
        consumer.close()


def list_last(rows: Iterable[Any]) -> Any:
    """The last row; None where there is none."""
    last = None
    for last in rows:  # noqa: B007 - the last one is wanted
        pass
    return last


def same(row: Any, record: Any) -> bool:
    """Whether the archived row is the record of the topic."""
    if record is None or record.error():
        return False
    found = (plain(record.key()), plain(record.value()), record.timestamp()[1])
    return found == (plain(row.key), plain(row.value), row.timestamp_ms)


def plain(value: Any) -> bytes | None:
    """bytes, where Spark gives a bytearray."""
    return None if value is None else bytes(value)


def write(rows: Iterable[Any], settings: Mapping[str, str], topic: str, partition: int) -> int:
    """Appends the rows with acks=all, once and in order; returns how many."""
    from confluent_kafka import Producer

    producer = Producer({**settings, "enable.idempotence": "true", "linger.ms": "20"})
    failed: list[str] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failed.append(str(error))

    count = 0
    for row in rows:
        headers: list[tuple[str, str | bytes | None]] = [
            (header.key, plain(header.value)) for header in row.headers or ()
        ]
        while True:
            try:
                producer.produce(
                    topic,
                    value=plain(row.value),
                    key=plain(row.key),
                    partition=partition,
                    timestamp=row.timestamp_ms,
                    headers=headers,
                    on_delivery=delivered,
                )
                break
            except BufferError:
                producer.poll(1.0)
        producer.poll(0)
        count += 1
        if failed:
            break
    if producer.flush(_SECONDS) or failed:
        why = failed[0] if failed else "no acknowledgement in time"
        raise Refusal(f"{topic}-{partition} could not be written: {why}; run the restore again, it goes on from there.")
    return count
