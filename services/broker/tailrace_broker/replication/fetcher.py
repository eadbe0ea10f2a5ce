"""A follower's loop for one leader: fetch, apply, fetch again; one connection and one fetch session (KIP-227).

A partition that fails (an epoch that is too new or too old, damage, the disk) is left out for a moment and does not
hold up the others. When partitions are added while a fetch waits for data, the wait is given up and begun again.

A request looks at what may have changed, not at all that is followed: at what was added, what the last answer was
about, what is left out, and a few others in turn, as their logs may also change by themselves (retention).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from tailrace.errors import ApiError, ErrorCode
from tailrace.log.directory.borrowed_log import begin_anew, cut
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.log import Log
from tailrace.net.authentication.secret import Secret
from tailrace.net.backoff import Backoff
from tailrace.net.client import Client, Disconnected
from tailrace.net.members.endpoints import address_of
from tailrace.net.turns import turns
from tailrace.wire.apis import ApiKey
from tailrace.wire.hot.fetch import FetchPartition
from tailrace.wire.hot.replica_fetch import (
    ReplicaAnswer,
    ReplicaFetch,
    ReplicaRow,
    decode_replica_answer,
    encode_replica_fetch,
)
from tailrace.wire.limits import ceiling
from tailrace.wire.malformed import Malformed
from tailrace_broker.partitions.follower import truncation_offset
from tailrace_broker.partitions.partition import Fetched

if TYPE_CHECKING:
    from tailrace.clock import Clock
    from tailrace.metadata.image import MetadataImage
    from tailrace_broker.directories.disk_pressure import DiskPressure
    from tailrace_broker.directories.storage import Storage
    from tailrace_broker.dynamic_config import DynamicBrokerConfig
    from tailrace_broker.metrics import BrokerMetrics
    from tailrace_broker.partitions.node import Node
    from tailrace_broker.partitions.partition import Partition
    from tailrace_broker.partitions.throttle import Throttle
    from tailrace_broker.partitions.wakeups import WakeUps

_FIRST_EPOCH = 0
_MAX_EPOCH = 2**31 - 1
# Logs that one round opens or creates at most: those that are open already are fetched in between.
_OPENED_PER_ROUND = 50
NAMED_PER_ROUND = 500  # partitions that are new to the session: the next request names more, and does not wait
_MOST_NAMED = ceiling(ApiKey.FETCH, "topics.partitions").most  # in one request, and of those that it forgets
_IN_TURN = 100  # partitions of which nothing is known to have changed
_GRACE_MS = 10_000  # beyond the longest wait for data, before a silent leader is given up
_FIRST_DELAY_MS = 10.0
_THROTTLED_MS = 1000.0  # how often a throttled follower looks whether it may go on
_SESSION_ERRORS = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
# Answers that pass by themselves: the leader or we have not read the newest image yet.
_PASSING = (
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


def change_due(partition: Partition, row: ReplicaRow) -> Callable[[Log], None] | None:
    """What an answer asks of the log that waits for the disk, and is for a thread to do."""
    log = partition.opened
    if log is None:
        return None
    if row.diverging is not None:
        offset = truncation_offset(log.epochs, log.log_end_offset, *row.diverging)
        return partial(cut, offset=offset) if offset < log.log_end_offset else None
    if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and partition.begins_anew(row.log_start_offset):
        return partial(begin_anew, offset=row.log_start_offset)
    return None


class _Follow:
    """One partition's state in the loop: what the leader's session was last told of it, the log start on the disk, the
    lag in records.
    """

    __slots__ = ("asked", "delay_ms", "key", "lag", "log_start", "partition", "until_ms")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.key = (partition.topic_id.bytes, partition.index)
        self.asked: FetchPartition | None = None
        self.delay_ms = 0.0
        self.until_ms = 0.0
        self.lag = 0
        self.log_start = -1


@dataclass(frozen=True)
class FetcherParts:
    """What the fetchers of one broker share."""

    node: Node
    config: DynamicBrokerConfig
    image: Callable[[], MetadataImage]
    storage: Storage
    pressure: DiskPressure
    wakeups: WakeUps
    change_log: Callable[[Partition, Callable[[Log], None]], bool]  # see BrokerMetadataPublisher.change_log
    throttle: Throttle
    metrics: BrokerMetrics
    clock: Clock
    boot_id: str
    secret: Secret | None
    log: FilteringBoundLogger


class ReplicaFetcher:
    """Follows any number of partitions of one leader."""

    def __init__(self, parts: FetcherParts, leader_id: int, backoff: Backoff) -> None:
        self._parts = parts
        self._leader_id = leader_id
        self._backoff = backoff
        self._log = parts.log
        self._follows: dict[tuple[bytes, int], _Follow] = {}
        self._due: dict[tuple[bytes, int], _Follow] = {}  # the next request looks at them
        self._in_turn: Iterator[_Follow] = iter(())
        self._names_all = False  # that fit into a request, to a leader that has no session for so many
        self._gone: set[tuple[bytes, int]] = set()  # the session still has them
        self._session_id = 0
        self._session_epoch = _FIRST_EPOCH
        self._correlation_id = 0
        self._client: Client | None = None
        self._client_id = f"broker-{parts.node.node_id}-fetcher".encode()
        self._news = asyncio.Event()
        self._asking = False
        self._interrupted = False
        self._added = False  # partitions, since the last request

    def max_lag(self) -> int:
        """How many committed records the furthest behind partition lacked after the leader's last answer about it."""
        return max((follow.lag for follow in self._follows.values()), default=0)

    def add(self, partition: Partition) -> None:
        """Fetches the partition from the next fetch on."""
        follow = _Follow(partition)
        known = self._follows.get(follow.key)
        if known is not None:
            follow.asked = known.asked
        self._follows[follow.key] = self._due[follow.key] = follow
        self._gone.discard(follow.key)
        self._added = True

    def fetch_added(self) -> None:
        """If there are such partitions a fetch that waits for data is begun again."""
        if self._added:
            self._interrupt()

    def remove(self, partition: Partition) -> None:
        """Fetches it no more."""
        key = (partition.topic_id.bytes, partition.index)
        follow = self._follows.pop(key, None)
        self._due.pop(key, None)
        if follow is not None and follow.asked is not None:
            self._gone.add(key)

    def _interrupt(self) -> None:
        self._news.set()
        if self._asking and self._client is not None:
            self._interrupted = True
            self._client.abort()

    async def run(self) -> None:
        """Fetches until cancelled."""
        try:
            while True:
                self._news.clear()
                wait_ms = self._pause_ms()
                if wait_ms is not None:
                    await self._pause(wait_ms)
                    continue
                try:
                    await self._round()
                    self._backoff.reset()
                except (Disconnected, TimeoutError, Malformed) as failed:
                    await self._lost(failed)
                    await self._pause(self._backoff.next_ms())
        finally:
            await self._forget_connection()

    def _pause_ms(self) -> float | None:
        """How long nothing can be fetched: inf without partitions, None when there is something to do."""
        if not self._follows:
            return float("inf")
        if len(self._due) < len(self._follows):
            return None
        now_ms = self._parts.clock.monotonic_ms()
        soonest = min(follow.until_ms for follow in self._due.values())
        return soonest - now_ms if soonest > now_ms else None

    async def _pause(self, wait_ms: float) -> None:
        try:
            async with asyncio.timeout(None if wait_ms == float("inf") else wait_ms / 1000):
                await self._news.wait()
        except TimeoutError:
            pass

    # -- one round -------------------------------------------------------------------------------------------------

    async def _round(self) -> None:
        """One request and its answer; interrupted when partitions are added."""
        client = self._connected()
        await self._open_some()
        frame = self._request()
        config = self._parts.config.current
        timeout_ms = config.replica_fetch_wait_max_ms + _GRACE_MS
        self._asking = True
        try:
            data = await client.ask_raw(frame, timeout_ms=timeout_ms)
        except Disconnected:
            if not self._interrupted:
                raise
            await self._forget_connection()
            return
        finally:
            self._asking = self._interrupted = False
        answer = decode_replica_answer(data)
        if answer.error_code:
            await self._refused(answer)
            return
        self._session_id = answer.session_id
        self._session_epoch = 1 if self._session_epoch == _MAX_EPOCH else self._session_epoch + 1
        self._names_all = not answer.session_id
        syncing, started = await self._apply(answer)
        if not answer.session_id:
            self._reset_session()
        if started:
            await self._checkpoint_log_starts(started)
        if syncing:  # flush.messages: the next fetch says that we have it, so it must be on the disk before
            await self._parts.wakeups.flusher.flushed(syncing)

    def _connected(self) -> Client:
        if self._client is None:
            broker = self._parts.image().brokers.get(self._leader_id)
            address = None if broker is None else address_of(broker.endpoints, self._parts.boot_id)
            if address is None:
                raise Disconnected(f"broker {self._leader_id} has no address in the image")
            self._client = Client(address, self._client_id.decode(), login=self._parts.secret)
        return self._client

    async def _open_some(self) -> None:
        """Opens or creates logs that the next request is to ask for, one after the other; others go in between."""
        now_ms = self._parts.clock.monotonic_ms()
        unopened = (one for one in self._due.values() if one.partition.opened is None and one.until_ms <= now_ms)
        async for follow in turns(list(islice(unopened, _OPENED_PER_ROUND))):
            if self._follows.get(follow.key) is follow:
                self._want(follow, 0)

    def _request(self) -> bytes:
        """Names what has changed since the last round: every partition that the session knows, and some new ones.

        The leader would send what follows a position that it still takes for ours once more with each answer.
        """
        self._added = False
        config, now_ms = self._parts.config.current, self._parts.clock.monotonic_ms()
        topics: dict[bytes, list[FetchPartition]] = {}
        forgotten: dict[bytes, list[int]] = {}
        gone = list(islice(self._gone, _MOST_NAMED // 2))
        for key, index in gone:
            forgotten.setdefault(key, []).append(index)
        self._gone.difference_update(gone)
        soonest, named, added = now_ms if self._gone else float("inf"), len(gone), 0
        most_added = _MOST_NAMED if self._names_all else NAMED_PER_ROUND
        for follow in self._take_due():
            key, index = follow.key
            if named == _MOST_NAMED or (follow.asked is None and added == most_added):
                self._due[follow.key], soonest = follow, now_ms
                continue
            want = None
            if follow.until_ms <= now_ms and follow.partition.opened is not None:
                want = self._want(follow, config.replica_fetch_max_bytes)
            if want is None:
                self._due[follow.key] = follow
                soonest = min(soonest, follow.until_ms)
                if follow.asked is not None:
                    forgotten.setdefault(key, []).append(index)
                    named += 1
            elif want != follow.asked:
                topics.setdefault(key, []).append(want)
                named += 1
                added += follow.asked is None
            if want is not None and follow.partition.throttled:
                self._due[follow.key] = follow  # the rate may be used up before there is news of it
            follow.asked = want
        wait_ms = min(config.replica_fetch_wait_max_ms, max(0.0, soonest - now_ms))
        if not self._session_id:
            forgotten.clear()
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        fetch = ReplicaFetch(
            self._parts.node.node_id,
            self._parts.node.broker_epoch,
            int(wait_ms),
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            self._session_id,
            self._session_epoch,
            list(topics.items()),
            list(forgotten.items()),
        )
        return encode_replica_fetch(fetch, self._correlation_id, self._client_id)

    def _take_due(self) -> list[_Follow]:
        """What the request looks at."""
        due, self._due = self._due, {}
        for _ in range(_IN_TURN):
            follow = next(self._in_turn, None)
            if follow is None:
                self._in_turn = iter(list(self._follows.values()))
                break
            if self._follows.get(follow.key) is follow:
                due[follow.key] = follow
        return list(due.values())

    def _want(self, follow: _Follow, max_bytes: int) -> FetchPartition | None:
        partition = follow.partition
        if self._parts.pressure.stops_following(partition):
            follow.until_ms = self._parts.clock.monotonic_ms() + _THROTTLED_MS
            return None
        try:
            offset, last_epoch, start = partition.position()
            if partition.syncing:  # opened just now, or not all of the last answer was sound
                self._parts.wakeups.flusher.request(partition)
                follow.until_ms = self._parts.clock.monotonic_ms() + _FIRST_DELAY_MS
                return None
            if partition.throttled and (wait_ms := self._parts.throttle.wait_ms()) > 0:
                # Not for the whole debt: the rate may be raised or taken away meanwhile.
                follow.until_ms = self._parts.clock.monotonic_ms() + min(wait_ms, _THROTTLED_MS)
                return None
        except OSError as failed:
            self._delay(follow, f"its log cannot be opened: {failed}")
            return None
        return FetchPartition(partition.index, partition.leader_epoch, offset, last_epoch, start, max_bytes)

    async def _refused(self, answer: ReplicaAnswer) -> None:
        self._reset_session()
        self._names_all = True  # a session that grows may be the one that is refused
        if answer.error_code not in _SESSION_ERRORS:
            name = ErrorCode(answer.error_code).name
            raise Disconnected(f"broker {self._leader_id} refused the fetch: {name}")

    def _reset_session(self) -> None:
        """The next request names every partition again; first those that the last one had no room for."""
        self._session_id, self._session_epoch = 0, _FIRST_EPOCH
        self._gone.clear()
        self._due |= self._follows
        for follow in self._follows.values():
            follow.asked = None

    async def _lost(self, failed: Exception) -> None:
        if self._backoff.failures == 0:
            self._log.info("following stopped", leader=self._leader_id, why=str(failed) or "no answer in time")
        await self._forget_connection()

    async def _forget_connection(self) -> None:
        client, self._client = self._client, None
        self._names_all = False
        self._reset_session()
        if client is not None:
            await client.close()

    # -- the answer ------------------------------------------------------------------------------------------------

    async def _apply(self, answer: ReplicaAnswer) -> tuple[list[Partition], list[_Follow]]:
        """Does what the answer says; returns what owes a flush, and what the checkpoint of log start offsets lacks."""
        syncing: list[Partition] = []
        started: list[_Follow] = []
        now_ms = self._parts.clock.wall_ms()
        async for row in turns(answer.rows):
            follow = self._follows.get((row.topic_id, row.partition))
            if follow is None or follow.asked is None or not self._apply_row(follow, follow.asked, row, now_ms):
                continue
            if follow.partition.syncing:
                syncing.append(follow.partition)
            log = follow.partition.opened
            if log is not None and log.segments.bases[0] < log.log_start_offset != follow.log_start:
                started.append(follow)
        return syncing, started

    async def _checkpoint_log_starts(self, started: list[_Follow]) -> None:
        """The next fetch says that these records are deleted here, and the leader may acknowledge that (KIP-107)."""
        storage = self._parts.storage
        starts, begun = dict[_Follow, tuple[int, LogDir]](), dict[LogDir, Callable[[], None]]()
        for follow in started:
            place, log = (follow.partition.topic, follow.partition.index), follow.partition.opened
            if log is not None and (log_dir := storage.place_of(*place)) is not None:
                starts[follow] = log.log_start_offset, log_dir
                begun[log_dir] = log_dir.begin_log_start_checkpoint(place, log)
        await self._parts.wakeups.flusher.log_starts(begun)
        for follow, (start, log_dir) in starts.items():
            if log_dir.failure is not None:
                self._delay(follow, "its log start offset cannot be written")
            else:
                follow.log_start = start

    def _apply_row(self, follow: _Follow, asked: FetchPartition, row: ReplicaRow, now_ms: int) -> bool:
        """Does what a row says; False where it says nothing of the partition as it is now."""
        self._due[follow.key] = follow
        partition, log = follow.partition, follow.partition.opened
        if asked.current_leader_epoch != partition.leader_epoch:
            return False  # asked of an earlier leadership
        if log is None or asked.fetch_offset != log.log_end_offset:
            return False  # about a position that the log has left
        if row.error_code in _PASSING:
            self._delay(follow)
            return False
        self._take(follow, row, now_ms)
        return True

    def _take(self, follow: _Follow, row: ReplicaRow, now_ms: int) -> None:
        parts, partition = self._parts, follow.partition
        end_before = partition.log.log_end_offset
        change = change_due(partition, row)
        if change is not None:
            if parts.wakeups.flusher.runs(partition):
                self._delay(follow)  # two threads would have the log; the leader says it again
                return
            if parts.change_log(partition, change):
                self._log.info(
                    "cuts to agree with the leader",
                    topic=partition.topic,
                    partition=partition.index,
                    leader=self._leader_id,
                )
                return
        fetched = Fetched(row.error_code, row.high_watermark, row.log_start_offset, row.records, row.diverging)
        try:
            moved = partition.fetched(fetched, now_ms)
        except (ApiError, OSError) as failed:
            self._delay(follow, str(failed))
            return
        stays = follow.asked is not None and partition.log.log_end_offset == follow.asked.fetch_offset
        if row.error_code and (stays or row.error_code != ErrorCode.OFFSET_OUT_OF_RANGE):
            self._delay(follow, ErrorCode(row.error_code).name)
            return
        follow.lag = max(0, row.high_watermark - partition.log.log_end_offset)
        if partition.log.log_end_offset < end_before:  # not where an epoch without records was forgotten
            self._log.info(
                "cut to agree with the leader",
                topic=partition.topic,
                partition=partition.index,
                log_end_offset=partition.log.log_end_offset,
                leader=self._leader_id,
            )
        follow.delay_ms = 0.0
        parts.metrics.replication_bytes_in += len(row.records)
        if row.records and partition.throttled:
            parts.throttle.charge(len(row.records))
        if moved:
            parts.wakeups.committed(partition)

    def _delay(self, follow: _Follow, why: str = "") -> None:
        """Leaves a partition out for a while that doubles from 10 ms to replica.fetch.backoff.ms."""
        most_ms = self._parts.config.current.replica_fetch_backoff_ms
        follow.delay_ms = min(most_ms, follow.delay_ms * 2 or _FIRST_DELAY_MS)
        follow.until_ms = self._parts.clock.monotonic_ms() + follow.delay_ms
        if why:
            self._log.warning(
                "a partition cannot follow",
                topic=follow.partition.topic,
                partition=follow.partition.index,
                leader=self._leader_id,
                why=why,
            )
