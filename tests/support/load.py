"""A producer that never stops asking, and the check of what it was promised: acknowledged records, once, in order."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from support.waiting import HUNG_S
from support.worker import Worker

_IN_FLIGHT = 100
_READ_TIMEOUT_MS = 1000 * HUNG_S


@dataclass
class Promised:
    """What was acknowledged: value -> (partition, offset); and how many sends failed."""

    acknowledged: dict[int, tuple[int, int]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


class Sender(Worker):
    """A thread that sends from `with` to its end, and what it was promised."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.promised = Promised()

    def wait_for(self, more: int, timeout_seconds: float = HUNG_S) -> None:
        """Returns when `more` further records were acknowledged from now on."""
        with self._news:
            want = len(self.promised.acknowledged) + more
            if not self._news.wait_for(lambda: len(self.promised.acknowledged) >= want, timeout_seconds):
                raise TimeoutError(f"{want - len(self.promised.acknowledged)} of {more} acknowledgements are missing")


class Load(Sender):
    """Sends 0, 1, 2, … to a topic with a bounded number in flight, from `with` to its end; idempotent, acks=all."""

    def __init__(self, bootstrap: str, topic: str, in_flight: int = _IN_FLIGHT, **settings: Any) -> None:
        super().__init__("load")
        self._topic = topic
        self._room = threading.Semaphore(in_flight)
        options = {"acks": "all", "linger_ms": 2, "retry_backoff_ms": 50, "delivery_timeout_ms": 1000 * HUNG_S}
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, **{**options, **settings})

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._room.release()  # or it would wait for an acknowledgement before it sees that it is over
        super().__exit__(*exc)

    def _close(self) -> None:
        self._producer.flush(timeout=HUNG_S)
        self._producer.close(timeout=10)

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._room.acquire()
            value = b"%d" % number
            future = self._producer.send(self._topic, value=value, key=b"%d" % (number % 97))
            future.add_callback(self._acknowledged, number)
            future.add_errback(self._failed)
            number += 1

    def _acknowledged(self, number: int, metadata: Any) -> None:
        with self._news:
            self.promised.acknowledged[number] = (metadata.partition, metadata.offset)
            self._news.notify_all()
        self._room.release()

    def _failed(self, error: BaseException) -> None:
        with self._news:
            self.promised.failed.append(repr(error))
        self._room.release()


class Reader(Worker):
    """Reads every partition of a topic from its start, live, and keeps what it saw: nothing seen may ever be gone."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, **settings: Any) -> None:
        super().__init__("reader")
        self.seen: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.failed: list[str] = []
        options = {"group_id": None, "auto_offset_reset": "earliest", "retry_backoff_ms": 50, **settings}
        self._consumer = KafkaConsumer(bootstrap_servers=bootstrap, **options)
        self._consumer.assign([TopicPartition(topic, p) for p in range(partitions)])

    def _close(self) -> None:
        self._consumer.close()

    def wait_for(self, more: int, timeout_seconds: float = HUNG_S) -> None:
        """Returns when `more` further records were read from now on."""
        with self._news:
            want = self.count + more
            if not self._news.wait_for(lambda: self.count >= want or bool(self.failed), timeout_seconds):
                raise TimeoutError(f"{want - self.count} of {more} records were not read")

    @property
    def count(self) -> int:
        """How many records it read."""
        return sum(map(len, self.seen.values()))

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                batches = self._consumer.poll(timeout_ms=100)
            except Exception as error:  # noqa: BLE001 - what a consumer raises is what the test is about
                self.failed.append(repr(error))
                return
            with self._news:
                for place, records in batches.items():
                    self.seen[place.partition] += [(r.offset, int(r.value)) for r in records]
                self._news.notify_all()


def check_seen(reader: Reader, found: dict[int, list[tuple[int, int]]]) -> None:
    """What a reader saw is what the log holds, from its start, without a gap or a change."""
    assert reader.failed == []
    for partition, rows in reader.seen.items():
        assert rows == found[partition][: len(rows)], f"partition {partition} is not what was read before"


def check_order(found: dict[int, list[tuple[int, int]]]) -> None:
    """Records may be there twice, but their first places are in the order of sending."""
    for partition, rows in found.items():
        first = list(dict.fromkeys(value for _, value in rows))
        assert first == sorted(first), f"partition {partition} is out of order"


def read_all(bootstrap: str, topic: str) -> dict[int, list[tuple[int, int]]]:
    """Every record of a topic: partition -> [(offset, value)], from the start to the present end."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=_READ_TIMEOUT_MS, group_id=None)
    try:
        partitions = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic))]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning(*partitions)
        left = {p for p in partitions if ends[p] > 0}
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        while left:
            batches = consumer.poll(timeout_ms=_READ_TIMEOUT_MS)
            if not batches:
                raise TimeoutError(f"nothing more came, {left} are not at their end")
            for place, records in batches.items():
                found[place.partition] += [(r.offset, int(r.value)) for r in records]
            left = {p for p in left if consumer.position(p) < ends[p]}
        return found
    finally:
        consumer.close()


def check(promised: Promised, found: dict[int, list[tuple[int, int]]], *, once: bool = True) -> None:
    """Every acknowledged record is where it was promised, once, and each partition is in the order of sending."""
    at = {(partition, offset): value for partition, rows in found.items() for offset, value in rows}
    lost = {n: place for n, place in promised.acknowledged.items() if at.get(place) != n}
    assert not lost, (
        f"{len(lost)} acknowledged records are not where they were promised: {dict(list(lost.items())[:5])}"
    )
    for partition, rows in found.items():
        values = [value for _, value in rows]
        if once:
            assert len(values) == len(set(values)), f"partition {partition} holds a record twice"
            assert values == sorted(values), f"partition {partition} is out of order"
