"""`python -m support.transform CLIENT BOOTSTRAP PARTITION`: consumes, transforms and produces in transactions.

Each record of "in" becomes one of "left" and one of "right", and its offset is committed with them. Now and then a
transaction is aborted on purpose; its records begin with "aborted". Each commit prints the next position. Any error
ends the process: whoever started it starts the next one with the same transactional id. The end of its standard input
ends it, too.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from support.waiting import HUNG_S

GROUP = "transform"
SOURCE, SINKS = "in", ("left", "right")
TRANSACTION_TIMEOUT_MS = 8_000
_RECORDS_MAX = 5
_ABORTED_EACH = 7
_POLL_MS = 1_000
Input = tuple[int, bytes]  # offset, value


class Transform(ABC):
    """One client library's consumer and transactional producer, on one partition."""

    def __init__(self, bootstrap: str, partition: int) -> None:
        self.bootstrap = bootstrap
        self.partition = partition
        self.transactional_id = f"transform-{partition}"

    @abstractmethod
    async def start(self) -> None:
        """Fences whoever had the id, then begins at the group's offset."""

    @abstractmethod
    async def poll(self) -> Sequence[Input]:
        """The next inputs, at most five."""

    @abstractmethod
    async def transact(self, values: Sequence[bytes], position: int, *, commit: bool) -> None:
        """Writes the values to both sinks and commits the position with them, or aborts."""

    @abstractmethod
    async def rewind(self, position: int) -> None:
        """Reads from here on once more."""

    async def run(self) -> None:
        """One transaction after another."""
        await self.start()
        count = 0
        while True:
            inputs = (await self.poll())[:_RECORDS_MAX]
            if not inputs:
                continue
            count += 1
            position = inputs[-1][0] + 1
            if count % _ABORTED_EACH == 0:
                await self.transact([b"aborted " + value for _, value in inputs], position, commit=False)
                await self.rewind(inputs[0][0])
                continue
            await self.transact([value for _, value in inputs], position, commit=True)
            await self.rewind(position)
            print(position, flush=True)


class KafkaPython(Transform):
    """kafka-python."""

    async def start(self) -> None:
        from kafka import KafkaConsumer, KafkaProducer, TopicPartition
        from kafka.structs import OffsetAndMetadata

        self.producer: Any = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=10_000,
            delivery_timeout_ms=20_000,  # by default two minutes: what is not written by then ends this process
            linger_ms=0,
        )
        self.producer.init_transactions()
        self.consumer: Any = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        self.source = TopicPartition(SOURCE, self.partition)
        self.consumer.assign([self.source])
        self.offset: Any = lambda position: {self.source: OffsetAndMetadata(position, "", -1)}

    async def poll(self) -> Sequence[Input]:
        found = self.consumer.poll(timeout_ms=_POLL_MS, max_records=_RECORDS_MAX)
        return [(record.offset, record.value) for rows in found.values() for record in rows]

    async def transact(self, values: Sequence[bytes], position: int, *, commit: bool) -> None:
        self.producer.begin_transaction()
        sent = [self.producer.send(sink, value) for value in values for sink in SINKS]
        self.producer.flush()
        for one in sent:
            one.get(timeout=HUNG_S)
        self.producer.send_offsets_to_transaction(self.offset(position), GROUP)
        if commit:
            self.producer.commit_transaction()
        else:
            self.producer.abort_transaction()

    async def rewind(self, position: int) -> None:
        self.consumer.seek(self.source, position)


# librdkafka 2.16 gives brokers up when it reaches none. One that is found again later may never be connected to.
_KEEP_BROKERS = {"metadata.recovery.strategy": "none"}


class Confluent(Transform):
    """confluent-kafka (librdkafka)."""

    async def start(self) -> None:
        from confluent_kafka import Consumer, Producer, TopicPartition

        self.at: Any = lambda position: TopicPartition(SOURCE, self.partition, position)
        self.producer: Any = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                **_KEEP_BROKERS,
            }
        )
        self.producer.init_transactions(30)
        self.consumer: Any = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                **_KEEP_BROKERS,
            }
        )
        committed = self.consumer.committed([self.at(-1)], timeout=30)[0]
        assert committed.error is None, committed.error
        self.consumer.assign([self.at(max(0, committed.offset))])

    async def poll(self) -> Sequence[Input]:
        found = self.consumer.consume(_RECORDS_MAX, _POLL_MS / 1000)
        return [(one.offset(), one.value()) for one in found if one.error() is None]

    async def transact(self, values: Sequence[bytes], position: int, *, commit: bool) -> None:
        self.producer.begin_transaction()
        for value in values:
            for sink in SINKS:
                self.producer.produce(sink, value)
        metadata = self.consumer.consumer_group_metadata()
        self.producer.send_offsets_to_transaction([self.at(position)], metadata, 30)
        if commit:
            self.producer.commit_transaction(30)
        else:
            self.producer.abort_transaction(30)

    async def rewind(self, position: int) -> None:
        self.consumer.seek(self.at(position))


class Aiokafka(Transform):
    """aiokafka.

    aiokafka 0.14 passes over the error of a whole OffsetFetch answer (v2 and newer). While a coordinator loads, its
    group looks like one without offsets, and it begins at the first record. So librdkafka says where the loop begins.
    """

    async def start(self) -> None:
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

        self.source = TopicPartition(SOURCE, self.partition)
        self.producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        await self.producer.start()
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        committed = await asyncio.to_thread(self._committed)
        await self.consumer.start()
        self.consumer.assign([self.source])
        self.consumer.seek(self.source, committed)

    def _committed(self) -> int:
        from confluent_kafka import Consumer, TopicPartition

        asked = TopicPartition(SOURCE, self.partition)
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": GROUP})
        found = consumer.committed([asked], timeout=30)[0]
        consumer.close()
        assert found.error is None, found.error
        return max(0, int(found.offset))

    async def poll(self) -> Sequence[Input]:
        found = await self.consumer.getmany(timeout_ms=_POLL_MS, max_records=_RECORDS_MAX)
        return [(record.offset, record.value) for rows in found.values() for record in rows]

    async def transact(self, values: Sequence[bytes], position: int, *, commit: bool) -> None:
        await self.producer.begin_transaction()
        sent = [await self.producer.send(sink, value) for value in values for sink in SINKS]
        await asyncio.gather(*sent)
        await self.producer.send_offsets_to_transaction({self.source: position}, GROUP)
        if commit:
            await self.producer.commit_transaction()
        else:
            await self.producer.abort_transaction()

    async def rewind(self, position: int) -> None:
        self.consumer.seek(self.source, position)


CLIENTS: dict[str, type[Transform]] = {
    "kafka-python": KafkaPython,
    "confluent-kafka": Confluent,
    "aiokafka": Aiokafka,
}


def end_with_parent() -> None:
    """Ends this process when its standard input ends, as it does when whoever started it is gone."""

    def wait() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    end_with_parent()
    asyncio.run(CLIENTS[sys.argv[1]](sys.argv[2], int(sys.argv[3])).run())
