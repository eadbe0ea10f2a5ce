"""One partition this broker has a replica of: its log, what is visible of it, and who waits for more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from tailrace.errors import ApiError, ErrorCode
from tailrace.log.appending import Appended
from tailrace.log.log import Log
from tailrace.log.reading import Slice

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class Partition:
    """The leader's view. The log is opened (and recovered) at its first use, so idle partitions cost nothing.

    With one replica the high watermark is the log end: what is appended is committed (KIP-497 with an ISR of one).
    """

    __slots__ = (
        "_log",
        "_open_log",
        "high_watermark",
        "index",
        "internal",
        "leader",
        "leader_epoch",
        "shard_epoch",
        "topic",
        "topic_id",
        "waiters",
    )

    def __init__(self, topic: str, topic_id: UUID, index: int, open_log: Callable[[], Log]) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.internal = topic in INTERNAL_TOPICS
        self.leader = -1
        self.leader_epoch = -1
        self.high_watermark = -1
        # The highest shard epoch seen in requests, in the image or in the log's barriers (internal topics only).
        self.shard_epoch = -1
        self.waiters: set[Any] = set()
        self._open_log = open_log
        self._log: Log | None = None

    @property
    def log(self) -> Log:
        """The log, opened on first use. Raises OSError if the disk refuses."""
        log = self._log
        if log is None:
            log = self._log = self._open_log()
            self.high_watermark = log.log_end_offset
        return log

    @property
    def opened(self) -> Log | None:
        """The log if something used it already."""
        return self._log

    def append(self, batches: Sequence[memoryview], now_ms: int, *, from_client: bool = True) -> list[Appended]:
        """Appends the batches with one write; the high watermark follows. A disk error refuses them all."""
        try:
            log = self.log
            answers = log.append(batches, self.leader_epoch, now_ms, from_client=from_client)
            if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
                log.flush(now_ms)  # flush.messages: on the disk before it is acknowledged
        except OSError as failed:
            refusal = Appended(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1, str(failed))
            return [refusal] * len(batches)
        self.high_watermark = log.log_end_offset
        return answers

    def check_epoch(self, current_leader_epoch: int) -> None:
        """KIP-320: a client with an older or newer epoch than ours is told which it is."""
        if current_leader_epoch >= 0:
            if current_leader_epoch < self.leader_epoch:
                raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
            if current_leader_epoch > self.leader_epoch:
                raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def read(self, offset: int, max_bytes: int, *, min_one: bool) -> Slice:
        """Whole batches below the high watermark; OFFSET_OUT_OF_RANGE outside the log."""
        log = self.log
        if offset > self.high_watermark or offset < log.log_start_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return log.read(offset, max_bytes, self.high_watermark, min_one)

    def close(self) -> None:
        """Forgets the log after it was closed or deleted; a later use opens it anew."""
        self._log = None
