"""The transaction machine under a clock of its own, asked as a client's requests ask it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tailrace.coordination.transaction_records import TransactionState, decode, encode
from tailrace.errors import ApiError
from tailrace.metadata.image import MetadataImage
from tailrace.state import SHELL, Output, ProducerIdAndEpoch, Shard, Sweep
from tailrace_coordinator.transactions.config import TransactionConfig
from tailrace_coordinator.transactions.decision import SendMarkers
from tailrace_coordinator.transactions.end import End
from tailrace_coordinator.transactions.machine import (
    Init,
    ListTransactionsFilter,
    TransactionEffects,
    TransactionMachine,
)

START_MS = 1_700_000_000_000
ALL = ListTransactionsFilter(frozenset(), frozenset(), -1, lambda _: True)
NEW = ProducerIdAndEpoch(-1, -1)


class Ids:
    """Commits at once; `markers` has what was to be sent."""

    def __init__(self, config: TransactionConfig | None = None, log: Sequence[tuple[bytes, bytes | None]] = ()) -> None:
        self.config = config or TransactionConfig()
        self.now_ms = START_MS
        self.log = list(log)
        self.markers: list[TransactionState] = []
        self.next_id = 1000
        self.machine = TransactionMachine(self.config)
        self.shard: Shard[Any] = Shard(self.machine, encode, max_batch_bytes=self.config.max_record_bytes)
        for key, value in self.log:
            self.machine.apply(decode(key, value))
        image = MetadataImage(features={"transaction.version": 2})
        self._act(self.machine.on_loaded(self.now_ms, image))

    def reloaded(self) -> Ids:
        """The same log at its next owner."""
        return Ids(self.config, self.log)

    def state(self, name: str = "t") -> TransactionState:
        return self.machine.transactions[name]

    def init(self, producer: ProducerIdAndEpoch = NEW, *, name: str = "t", timeout_ms: int = 60_000) -> Any:
        """The ProducerIdAndEpoch, or the code of a refusal; takes a new producer id where one is asked for."""
        reply = self._ask(lambda token: self._init(token, Init(name, timeout_ms, producer)))
        if type(reply).__name__ == "NeedsProducerId":
            self.next_id += 1
            reply = self._ask(lambda token: self._init(token, Init(name, timeout_ms, producer, self.next_id)))
        return reply

    def _init(self, token: int, request: Init) -> TransactionEffects:
        return self.machine.init_producer_id(self.now_ms, token, request)

    def add(self, producer: ProducerIdAndEpoch, *partitions: tuple[str, int], name: str = "t", version: int = 0) -> Any:
        return self._ask(
            lambda token: self.machine.add_partitions(self.now_ms, token, name, producer, partitions, version)
        )

    def verify(self, producer: ProducerIdAndEpoch, *partitions: tuple[str, int], name: str = "t") -> Any:
        return self._ask(lambda token: self.machine.verify_partitions(self.now_ms, token, name, producer, partitions))

    def end(self, producer: ProducerIdAndEpoch, commit: bool, *, name: str = "t", version: int = 0) -> Any:
        reply = self._ask(lambda token: self._end(token, End(name, producer, commit, version)))
        if type(reply).__name__ == "NeedsProducerId":
            self.next_id += 1
            reply = self._ask(lambda token: self._end(token, End(name, producer, commit, version, self.next_id)))
        return reply

    def _end(self, token: int, request: End) -> TransactionEffects:
        return self.machine.end(self.now_ms, token, request)

    def complete(self) -> None:
        """Every marker that was to be sent is in its partition."""
        sent, self.markers = self.markers, []
        for one in sent:
            self._ask(lambda token, one=one: self.machine.complete(self.now_ms, token, one))  # type: ignore[misc]

    def listed(self, wanted: ListTransactionsFilter = ALL) -> list[str]:
        found = self._ask(lambda token: self.machine.list_transactions(self.now_ms, token, wanted))
        return [one.transactional_id for one in found]

    def timer(self, key: tuple[str, ...]) -> None:
        self._act(self.machine.on_timer(key, self.now_ms))

    def _ask(self, decide: Callable[[int], TransactionEffects]) -> Any:
        replies: dict[int, Any] = {}
        self._act(decide(1), replies)
        reply = replies[1]
        return reply.code if isinstance(reply, ApiError) else reply

    def _act(self, decided: TransactionEffects, replies: dict[int, Any] | None = None) -> None:
        self._take(self.shard.take(decided), replies)

    def _take(self, output: Output, replies: dict[int, Any] | None = None) -> None:
        for token, reply in output.replies:
            if token == SHELL and isinstance(reply, Sweep):
                for row in reply.rows:
                    self._act(reply.decide(self.now_ms, row), replies)
            elif token == SHELL:
                assert isinstance(reply, SendMarkers)
                self.markers.append(reply.transaction)
            elif replies is not None:
                replies[token] = reply
        if output.append is not None:
            self.log += output.append.records
            self._take(self.shard.committed(), replies)
