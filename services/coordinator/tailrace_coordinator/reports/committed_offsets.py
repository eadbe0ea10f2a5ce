"""Committed offsets with their lag, for the SQL views and metrics: the ends of logs, and the next records to read.

Offsets are read first and the ends asked for afterwards, so that no group seems to be ahead of a log. Bounded: of more
offsets than MAX_ROWS the first are shown; each leader is asked by one request at a time, of PARTITIONS_MAX partitions
for ends, and REQUESTS_MAX times for timestamps.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from tailrace.clock import Clock
from tailrace.coordination.group_records import OffsetCommitted
from tailrace.errors import ApiError
from tailrace.kafka.ids import TopicPartition
from tailrace.kafka.lag import NOTHING_TO_READ, lag, lag_trend
from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.authentication.secret import Secret
from tailrace.net.client import Client, Disconnected
from tailrace.net.identity import COORDINATOR_CLIENT_ID
from tailrace.net.large import Large
from tailrace.net.members.endpoints import address_of
from tailrace.net.members.reports import MAX_CHANGES, MAX_ROWS
from tailrace.reading.next_records import Unread, next_timestamps
from tailrace.wire.codec import Malformed
from tailrace.wire.hot.list_offsets import list_offsets_request
from tailrace.wire.messages import ApiMessage
from tailrace_coordinator.groups.machine import GroupMachine
from tailrace_coordinator.groups.offsets import is_of_another_topic

PARTITIONS_MAX = 500
REQUESTS_MAX = 10
GROUPS_MAX = 10  # of one partition, whose next records are looked for at a time
KEPT_MS = 60_000  # retention may take away the record whose timestamp is known
METADATA_CHARACTERS = 256  # of each offset's; a client may write 4,096 of them
KEY = ("group_id", "topic", "partition")
_TIMEOUT_MS = 3_000
_LIST_OFFSETS_VERSION = 11
_Key = tuple[str, str, int]


class Brokers(Protocol):
    """How a broker is asked for the ends of logs and for records."""

    async def ask(self, address: Address, request: ApiMessage, version: int) -> Any:
        """Raises Disconnected, TimeoutError or Malformed where it does not answer."""
        ...

    async def keep(self, addresses: Iterable[Address]) -> None:
        """Forgets all brokers but those that listen there."""
        ...


class BrokerClients:
    """Connections of their own: an answer that takes a broker long must not hold up the groups' records."""

    def __init__(self, secret: Secret | None = None) -> None:
        self._secret = secret
        self._clients: dict[Address, Client] = {}

    async def ask(self, address: Address, request: ApiMessage, version: int) -> Any:
        client = self._clients.setdefault(address, Client(address, COORDINATOR_CLIENT_ID, login=self._secret))
        return await client.ask(request, timeout_ms=_TIMEOUT_MS, version=version)

    async def keep(self, addresses: Iterable[Address]) -> None:
        for address in self._clients.keys() - set(addresses):
            await self._clients.pop(address).close()


class GroupOffset(NamedTuple):
    """A committed offset as it was at a look; None is unknown, as the leader does not answer."""

    offset: OffsetCommitted
    log_end_offset: int | None
    next_timestamp_ms: int | None
    lag_trend: float | None
    looked_ms: float
    found_ms: float  # when the timestamp was found

    @property
    def lag(self) -> int | None:
        return None if self.log_end_offset is None else lag(self.offset.offset, self.log_end_offset)


class CommittedOffsets:
    """`rows` are as old as the last look at each; without an end where the partition's leader did not answer."""

    def __init__(
        self,
        machines: Callable[[], Iterable[GroupMachine | None]],
        image: Callable[[], MetadataImage],
        brokers: Brokers,
        clock: Clock,
        boot_id: str,
    ) -> None:
        self._machines = machines
        self._image = image
        self._brokers = brokers
        self._clock = clock
        self._boot_id = boot_id
        self._large = Large()  # not the coordinator's: clients do not wait behind a report
        self._rows: dict[_Key, GroupOffset] = {}
        self._changes = -1

    @property
    def rows(self) -> Sequence[GroupOffset]:
        return list(self._rows.values())

    async def close(self) -> None:
        """Closes the connections."""
        await self._brokers.keep(())

    async def refresh(self) -> None:
        """Looks at all offsets."""
        self._changes = self._count_changes()
        committed = dict(itertools.islice(self._committed(), MAX_ROWS))
        if not committed:  # also before the first image
            await self._brokers.keep(())
            self._rows = {}
            return
        self._rows = await self._look(committed, of_all=True)

    async def moved(self) -> Sequence[GroupOffset]:
        """Looks at the offsets that were committed since the last look; the rest waits where these are very many."""
        if (changes := self._count_changes()) == self._changes:
            return ()
        moved = {
            key: offset
            for key, offset in itertools.islice(self._committed(), MAX_ROWS)
            if ((row := self._rows.get(key)) is not None or len(self._rows) < MAX_ROWS)
            and (row is None or (row.offset is not offset and row.offset != offset))
        }
        some = dict(itertools.islice(moved.items(), MAX_CHANGES))
        if len(some) == len(moved):
            self._changes = changes
        looked = await self._look(some, of_all=False) if some else {}
        self._rows.update(looked)
        return list(looked.values())

    def _count_changes(self) -> int:
        return sum(machine.offsets.changes for machine in self._machines() if machine is not None)

    def _committed(self) -> Iterator[tuple[_Key, OffsetCommitted]]:
        for machine in self._machines():
            if machine is not None:
                for offset in machine.offsets:
                    yield (offset.group_id, offset.topic, offset.partition), offset

    async def _look(self, committed: Mapping[_Key, OffsetCommitted], *, of_all: bool) -> dict[_Key, GroupOffset]:
        work = partial(_current_and_leaders, committed, self._image(), self._boot_id)
        current, leaders = await self._large.over(len(committed), work)
        by_leader: dict[Address, list[TopicPartition]] = {}
        for partition, address in leaders.items():
            by_leader.setdefault(address, []).append(partition)
        if of_all:
            await self._brokers.keep(by_leader)
        ends: dict[TopicPartition, int] = {}
        await asyncio.gather(*(self._ask_ends(address, keys, ends) for address, keys in by_leader.items()))
        rows = {key: self._row(key, offset, ends.get(key[1:])) for key, offset in current.items()}
        await self._find_timestamps(rows, leaders)
        return rows

    def _row(self, key: _Key, offset: OffsetCommitted, end: int | None) -> GroupOffset:
        """With the timestamp that is known of it, as long as it may be so."""
        now_ms = self._clock.monotonic_ms()
        row = GroupOffset(offset, end, None, None, now_ms, now_ms)
        before = self._rows.get(key)
        if before is None:
            return row
        row = row._replace(lag_trend=lag_trend(before.lag, row.lag, now_ms - before.looked_ms))
        is_known = (
            before.offset.offset == offset.offset
            and before.offset.topic_id == offset.topic_id
            and now_ms - before.found_ms < KEPT_MS
            and (before.next_timestamp_ms != NOTHING_TO_READ or before.log_end_offset == end)
        )
        if is_known and end is not None:
            row = row._replace(next_timestamp_ms=before.next_timestamp_ms, found_ms=before.found_ms)
        return row

    async def _find_timestamps(self, rows: dict[_Key, GroupOffset], leaders: Mapping[TopicPartition, Address]) -> None:
        """Of one partition the groups take turns, as a request names it once."""
        unknown: dict[TopicPartition, list[_Key]] = {}
        for key, row in rows.items():
            if row.lag and row.next_timestamp_ms is None and key[1:] in leaders:
                unknown.setdefault(key[1:], []).append(key)
        for turn in range(GROUPS_MAX):
            asked: dict[Address, dict[TopicPartition, Unread]] = {}
            keys = {partition: some[turn] for partition, some in unknown.items() if turn < len(some)}
            for partition, key in keys.items():
                row = rows[key]
                assert row.log_end_offset is not None
                unread = Unread(row.offset.offset, row.log_end_offset)
                asked.setdefault(leaders[partition], {})[partition] = unread
            if not asked:
                return
            for partition, timestamp_ms in (await next_timestamps(self._brokers.ask, asked, REQUESTS_MAX)).items():
                rows[keys[partition]] = rows[keys[partition]]._replace(next_timestamp_ms=timestamp_ms)

    async def _ask_ends(self, address: Address, keys: list[TopicPartition], ends: dict[TopicPartition, int]) -> None:
        try:
            for first in range(0, len(keys), PARTITIONS_MAX):
                topics: dict[str, list[int]] = {}
                for name, partition in keys[first : first + PARTITIONS_MAX]:
                    topics.setdefault(name, []).append(partition)
                request = list_offsets_request(topics, timeout_ms=_TIMEOUT_MS)
                answer = await self._brokers.ask(address, request, _LIST_OFFSETS_VERSION)
                for topic in answer.topics:
                    ends.update(
                        {(topic.name, p.partition_index): p.offset for p in topic.partitions if not p.error_code}
                    )
        except (ApiError, Disconnected, TimeoutError, Malformed):
            return  # what it did not say is unknown until the next time


def _current_and_leaders(
    committed: Mapping[_Key, OffsetCommitted], image: MetadataImage, boot_id: str
) -> tuple[dict[_Key, OffsetCommitted], dict[TopicPartition, Address]]:
    """The offsets that count for the topics there are, and the leaders that know where their logs end."""
    current = {key: offset for key, offset in committed.items() if not is_of_another_topic(image, offset)}
    leaders: dict[TopicPartition, Address] = {}
    for topic, partition in dict.fromkeys(key[1:] for key in current):
        broker = image.brokers.get(image.leader(topic, partition))
        address = None if broker is None or broker.fenced else address_of(broker.endpoints, boot_id)
        if address is not None:
            leaders[topic, partition] = address
    return current, leaders


def row_of(shown: GroupOffset) -> dict[str, Any]:
    """A row of the view group_offsets."""
    offset = shown.offset
    return {
        "group_id": offset.group_id,
        "topic": offset.topic,
        "partition": offset.partition,
        "committed_offset": offset.offset,
        "metadata": offset.metadata[:METADATA_CHARACTERS],
        "log_end_offset": shown.log_end_offset,
        "next_timestamp_ms": shown.next_timestamp_ms,
        "lag_trend": shown.lag_trend,
    }
