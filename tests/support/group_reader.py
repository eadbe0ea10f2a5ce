"""A consumer group beside what a test does to the cluster: it reads on, skips nothing, and its commits are taken."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import Any

from kafka.errors import KafkaError

from support.subscribing import REBALANCE_MS, subscribed
from support.worker import Worker


class GroupReader(Worker):
    """A group of one member that reads and commits, from `with` to its end."""

    def __init__(self, bootstrap: str, topic: str, group_id: str) -> None:
        super().__init__(group_id)
        self.seen: set[int] = set()
        self.wrong: list[str] = []
        self._committed = 0  # how many of `seen` were there at the last commit that was taken
        self._positions: dict[int, int] = defaultdict(int)
        self._consumer = subscribed(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            retry_backoff_ms=50,
            request_timeout_ms=15_000,
        )

    def wait_for(self, values: set[int], timeout_seconds: float) -> None:
        """Returns when the group has read all of these."""
        with self._news:
            read = self._news.wait_for(lambda: self.wrong or values <= self.seen, timeout_seconds)
        assert read and not self.wrong, (self.wrong, sorted(values - self.seen)[:5])

    def wait_for_commit(self, timeout_seconds: float) -> None:
        """Returns when the group has committed something that it had not read before now."""
        with self._news:
            before = len(self.seen)
            taken = self._news.wait_for(lambda: self.wrong or self._committed > before, timeout_seconds)
        assert taken and not self.wrong, (self.wrong, f"{before} values read, and no commit of more")

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if batches := self._consumer.poll(timeout_ms=REBALANCE_MS):
                    self._keep(batches)
                    with suppress(KafkaError):  # what is not committed may be read again
                        self._consumer.commit(timeout_ms=10_000)
                        self._tell_commit()
        except Exception as error:  # noqa: BLE001 - what a consumer raises is what the test is about
            with self._news:
                self.wrong.append(repr(error))
                self._news.notify_all()

    def _keep(self, batches: dict[Any, list[Any]]) -> None:
        with self._news:
            for place, rows in batches.items():
                for row in rows:
                    self._read(place.partition, row.offset, int(row.value))
            self._news.notify_all()

    def _tell_commit(self) -> None:
        with self._news:
            self._committed = len(self.seen)
            self._news.notify_all()

    def _read(self, partition: int, offset: int, value: int) -> None:
        """Again is no harm, a gap is."""
        if offset > self._positions[partition]:
            self.wrong.append(f"{partition}: {offset} after {self._positions[partition] - 1}")
        self._positions[partition] = max(self._positions[partition], offset + 1)
        self.seen.add(value)

    def _close(self) -> None:
        self._consumer.close()
