"""A Fetch that cannot be answered at once: it waits for news of a partition, for its timeout, or for the disk.

Kafka's DelayedFetch. Consumers (plain.py) and followers (follower.py) differ in what they look at, not in how they
wait: the purgatory wakes them by partition or by deadline, and a job of cold_reads/ when the disk has answered.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tailrace.net.context import HotConnection
from tailrace.wire.hot.fetch import Fetch
from tailrace.wire.pieces import Piece
from tailrace_broker.cold_reads.reads import MOST_TRIES, ColdRead, ColdReads
from tailrace_broker.fetch.read import Reads
from tailrace_broker.fetch.sessions import Session
from tailrace_broker.waiting.operation import DelayedOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.clock import Clock
    from tailrace_broker.dynamic_config import DynamicBrokerConfig
    from tailrace_broker.hints import Hints
    from tailrace_broker.metrics import BrokerMetrics
    from tailrace_broker.partitions.throttle import Throttle
    from tailrace_broker.partitions.topics import Topics
    from tailrace_broker.replication.isr import IsrUpdates
    from tailrace_broker.topic_rights import TopicRights
    from tailrace_broker.waiting.purgatory import Purgatory, Waited


@dataclass(frozen=True)
class FetchParts:
    """What the fetches of one broker share."""

    topics: Topics
    purgatory: Purgatory
    cold_reads: ColdReads
    config: DynamicBrokerConfig
    hints: Hints  # of consumers
    isr: IsrUpdates  # of followers
    leader_throttle: Throttle
    metrics: BrokerMetrics
    clock: Clock
    new_session_id: Callable[[], int]
    rights: TopicRights


FetchAnswer: TypeAlias = list[Piece] | asyncio.Future[list[Piece]]  # at once, or when it had to wait


class AskedFetch(NamedTuple):
    """A request with what is known of it before any partition is looked at."""

    connection: HotConnection
    version: int
    correlation_id: int
    request: Fetch
    session: Session | None
    full: bool  # whether all partitions are answered, news or not


class DelayedFetch(DelayedOperation):
    """One request until its answer. A subclass looks at its partitions, encodes, and leaves those it waits at."""

    __slots__ = (
        "_correlation_id",
        "_failed",
        "_full",
        "_job",
        "_parts",
        "_reads",
        "_request",
        "_session",
        "_state",
        "_takes_files",
        "_tries",
        "_version",
        "future",
    )
    _reads: Reads  # of the last look

    def __init__(self, parts: FetchParts, asked: AskedFetch) -> None:
        super().__init__()
        self._parts = parts
        self._version, self._correlation_id = asked.version, asked.correlation_id
        self._request, self._session, self._full = asked.request, asked.session, asked.full
        self._takes_files: bool = asked.connection.sends_files
        self._state: dict[str, object] = asked.connection.state
        self._job: ColdRead | None = None  # under way on the disk
        self._tries = 0
        self._failed = False  # the disk did
        self.future: asyncio.Future[list[Piece]] | None = None

    def _new_reads(self, max_bytes: int) -> Reads:
        """For another look; the event loop reads, and waits for the disk, once that was asked often enough."""
        return Reads(max_bytes, self._takes_files, self._state, self._tries >= MOST_TRIES, self._failed)

    def _promise(self) -> asyncio.Future[list[Piece]]:
        self.future = asyncio.get_running_loop().create_future()
        self.future.add_done_callback(self._forget)
        return self.future

    def _park(self, keys: Iterable[Waited]) -> None:
        self._parts.purgatory.park(self, keys, self._request.max_wait_ms)

    def _ask_disk(self) -> None:
        """Has what is missing brought; the whole request is looked at again then."""
        self._tries += 1
        self._job = self._parts.cold_reads.start(self._state, list(self._reads.missing), self._answered_by_disk)

    def _answered_by_disk(self, error: OSError | None) -> None:
        self._job = None
        self._failed = error is not None
        self.look_again()

    def _forget(self, _: object) -> None:
        """After the answer, or when the client went away: nothing holds on to this wait."""
        self.done = True
        if self._job is not None:
            self._job.cancel()
            self._job = None
        self.leave()

    @abstractmethod
    def look_again(self) -> None:
        """All is looked at as it is now that the disk has answered."""

    @abstractmethod
    def leave(self) -> None:
        """No partition holds on to this wait any more."""
