"""What a Produce request is while it is served: its partitions, the answer they make, and who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from tailrace.errors import ApiError
from tailrace.log.append import LogAppendResult
from tailrace.log.limits import BadRecords
from tailrace.net.session import ClientSession
from tailrace.wire.connection import Promised
from tailrace.wire.hot.produce_heads import Head
from tailrace.wire.pieces import Piece
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.produce.refused_batches import RefusedBatches

TOPIC_IDS_FROM: Final = 13  # KIP-516
_NOT_APPENDED: Final = LogAppendResult(0, -1, -1, -1, None)


# Of an answer: filled at the end of the read or later, a future of it where a thread looks first, None for acks=0.
ProduceSlot: TypeAlias = list[Piece] | asyncio.Future[list[Piece]] | Promised | None


class ProducerConnection(Protocol):
    """The connection of a producer; many_rows.py serves its pieces under one of their own."""

    @property
    def session(self) -> ClientSession: ...

    refused_batches: RefusedBatches | None

    def mute(self, throttle_time_ms: int) -> None: ...

    def close(self) -> None: ...

    def flush(self) -> None: ...

    def keep(self, body: memoryview) -> memoryview: ...


class PartitionAppend:
    """One partition of one request; `appended` is what the log answered."""

    __slots__ = ("appended", "error_code", "partition", "partition_id")

    def __init__(self, partition_id: int, partition: Partition | None, error_code: int) -> None:
        self.partition_id = partition_id
        self.partition = partition
        self.error_code = error_code
        self.appended = _NOT_APPENDED

    def refuse(self, error_code: int, message: str | None, blamed: tuple[int, ...] = ()) -> None:
        self.error_code = error_code
        self.appended = LogAppendResult(error_code, -1, -1, -1, message, blamed)

    def refuse_for(self, refused: ApiError) -> None:
        """What an examination found."""
        self.refuse(refused.code, refused.message, refused.indices if isinstance(refused, BadRecords) else ())


class ThrottleTimes(NamedTuple):
    """What the answer tells the client, and of it what the disk asks: the client is muted already for a quota's."""

    throttle_time_ms: int
    disk_ms: int


class ProduceAnswer(NamedTuple):
    """What an answer is made of, once every append has its outcome. head: of a request that fast.py recognised."""

    version: int
    correlation_id: int
    topics: Sequence[tuple[bytes, Sequence[PartitionAppend]]]
    throttle: ThrottleTimes | None
    head: Head | None = None

    @property
    def throttle_time_ms(self) -> int:
        """What the client is told."""
        return 0 if self.throttle is None else self.throttle.throttle_time_ms


class StagedRequest(NamedTuple):
    """A request whose appends are staged, and the slot for its answer."""

    slot: list[Piece] | Promised | None
    connection: ProducerConnection
    acks: int
    timeout_ms: int
    answer: ProduceAnswer
