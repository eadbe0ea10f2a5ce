"""A producer that beats: one record every few milliseconds to one partition, and when each was acknowledged."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from support.load import Sender

PARTITION = 0
BEAT_SECONDS = 0.002
IDEMPOTENT = {"enable.idempotence": True, "acks": "all"}
ONE_BY_ONE = {"enable.idempotence": False, "acks": "all", "max.in.flight": 1}
LEADER_ONLY = {**ONE_BY_ONE, "acks": "1"}


@dataclass(frozen=True)
class Silence:
    """The longest time without an acknowledged record, from the last one before to the first one after it, in ms."""

    milliseconds: float


class Pulse(Sender):
    """librdkafka with its own defaults but for what `settings` say; beats from `with` to its end."""

    def __init__(self, bootstrap: str, topic: str, settings: Mapping[str, Any]) -> None:
        super().__init__("pulse")
        self._topic = topic
        self._acknowledged_at: list[float] = []
        # Rounds follow each other within seconds. librdkafka doubles its wait before a reconnect for every break that
        # comes sooner than reconnect.backoff.max.ms (10 s) after the last one: after a dozen rounds it would be that
        # wait that is measured, which failovers that lie further apart never meet.
        options = {
            "bootstrap.servers": bootstrap,
            "linger.ms": 0,
            "delivery.timeout.ms": 120_000,
            "reconnect.backoff.max.ms": 1_000,
        }
        self._producer = Producer({**options, **settings, "log_level": 2})  # it says of every death that it saw one

    def _close(self) -> None:
        self._producer.flush(60)

    @property
    def beats(self) -> int:
        """How many records were acknowledged."""
        return len(self._acknowledged_at)

    def silence_since(self, beat: int) -> Silence:
        """The longest pause between two acknowledgements from that beat on."""
        times = self._acknowledged_at[max(0, beat - 1) :]
        return Silence(1000 * max(b - a for a, b in itertools.pairwise(times)))

    def _run(self) -> None:
        number = 0
        due = time.monotonic()
        while not self._stop.is_set():
            try:
                on_delivery = self._delivered(number)
                self._producer.produce(self._topic, b"%d" % number, partition=PARTITION, on_delivery=on_delivery)
                number += 1
            except BufferError:  # so much is unacknowledged that no more fits: the next beat tries again
                pass
            due = max(due + BEAT_SECONDS, time.monotonic())
            while (left := due - time.monotonic()) > 0:
                self._producer.poll(left)
            self._producer.poll(0)

    def _delivered(self, number: int) -> Any:
        def keep(error: KafkaError | None, message: Message) -> None:
            with self._news:
                if error is not None:
                    self.promised.failed.append(str(KafkaException(error)))
                else:
                    self._acknowledged_at.append(time.monotonic())
                    offset = message.offset()
                    assert offset is not None
                    self.promised.acknowledged[number] = (PARTITION, offset)
                self._news.notify_all()

        return keep
