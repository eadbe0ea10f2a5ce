"""The committed offsets as the SQL views show them, each beside the end of its partition's log.

Offsets are read first and the ends asked for afterwards, so that nobody seems to be ahead of a log. Bounded: of more
offsets than MAX_ROWS the first are shown; each leader is asked by one request at a time, of PARTITIONS_MAX partitions.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.coordination.group_records import OffsetCommitted
from tailrace.errors import ApiError
from tailrace.kafka.ids import TopicPartition
from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.authentication.proof import Secret
from tailrace.net.client import Client, Disconnected
from tailrace.net.large import Large
from tailrace.net.members.endpoints import address_of
from tailrace.net.members.reports import MAX_ROWS
from tailrace.wire.codec import Malformed
from tailrace.wire.hot.list_offsets import list_offsets_request
from tailrace.wire.messages import ListOffsetsRequest
from tailrace_coordinator.groups.machine import GroupMachine

FEW_ROWS = 1_000
PARTITIONS_MAX = 500
INTERVAL_MS = 60_000
SOON_MS = 5_000  # while there is little to ask
METADATA_CHARACTERS = 256  # of each offset's; a client may write 4,096 of them
_CLIENT_ID = "tailrace-coordinator"
_TIMEOUT_MS = 3_000
_VERSION = 11


class Brokers(Protocol):
    """How a broker is asked for the ends of logs."""

    async def ask(self, address: Address, request: ListOffsetsRequest) -> Any:
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

    async def ask(self, address: Address, request: ListOffsetsRequest) -> Any:
        client = self._clients.setdefault(address, Client(address, _CLIENT_ID, secret=self._secret))
        return await client.ask(request, timeout_ms=_TIMEOUT_MS, version=_VERSION)

    async def keep(self, addresses: Iterable[Address]) -> None:
        for address in self._clients.keys() - set(addresses):
            await self._clients.pop(address).close()


class CommittedOffsets:
    """`rows` is as old as the last refresh; without an end where the partition's leader did not answer."""

    def __init__(
        self,
        machines: Callable[[], Iterable[GroupMachine | None]],
        image: Callable[[], MetadataImage],
        brokers: Brokers,
        clock: Clock,
        boot_id: str,
        log: FilteringBoundLogger,
    ) -> None:
        self._machines = machines
        self._image = image
        self._brokers = brokers
        self._clock = clock
        self._boot_id = boot_id
        self._log = log
        self._large = Large()  # not the coordinator's: clients do not wait behind a report
        self.rows: list[dict[str, Any]] = []

    async def run(self) -> None:
        """Refreshes until cancelled."""
        try:
            while True:
                try:
                    await self.refresh()
                except Exception:  # noqa: BLE001 - a bug in what the views show is not worth a coordinator
                    self._log.exception("ends of logs not asked for")
                await self._clock.sleep(SOON_MS if len(self.rows) < FEW_ROWS else INTERVAL_MS)
        finally:
            await self._brokers.keep(())

    async def refresh(self) -> None:
        """Reads the offsets, then asks every leader for its ends."""
        committed = list(itertools.islice(_committed(self._machines()), MAX_ROWS))
        if not committed:  # also before the first image
            await self._brokers.keep(())
            self.rows = []
            return
        work = partial(_rows_and_leaders, committed, self._image(), self._boot_id)
        rows, asked = await self._large.over(len(committed), work)
        await self._brokers.keep(asked)
        ends: dict[TopicPartition, int] = {}
        await asyncio.gather(*(self._ask(address, keys, ends) for address, keys in asked.items()))
        for row in rows:
            row["log_end_offset"] = ends.get((row["topic"], row["partition"]))
        self.rows = rows

    async def _ask(self, address: Address, keys: list[TopicPartition], ends: dict[TopicPartition, int]) -> None:
        try:
            for first in range(0, len(keys), PARTITIONS_MAX):
                answer = await self._brokers.ask(address, _request(keys[first : first + PARTITIONS_MAX]))
                for topic in answer.topics:
                    ends.update(
                        {(topic.name, p.partition_index): p.offset for p in topic.partitions if not p.error_code}
                    )
        except (ApiError, Disconnected, TimeoutError, Malformed):
            return  # what it did not say is unknown until the next time


def _rows_and_leaders(
    committed: Sequence[OffsetCommitted], image: MetadataImage, boot_id: str
) -> tuple[list[dict[str, Any]], dict[Address, list[TopicPartition]]]:
    """A row for each offset, and the partitions by the leader that knows where their logs end."""
    asked: dict[Address, list[TopicPartition]] = {}
    for topic, partition in dict.fromkeys((offset.topic, offset.partition) for offset in committed):
        broker = image.brokers.get(image.leader(topic, partition))
        address = None if broker is None or broker.fenced else address_of(broker.endpoints, boot_id)
        if address is not None:
            asked.setdefault(address, []).append((topic, partition))
    return [_row(offset) for offset in committed], asked


def _request(keys: Iterable[TopicPartition]) -> ListOffsetsRequest:
    by_topic: dict[str, list[int]] = {}
    for name, partition in keys:
        by_topic.setdefault(name, []).append(partition)
    return list_offsets_request(by_topic, timeout_ms=_TIMEOUT_MS)


def _committed(machines: Iterable[GroupMachine | None]) -> Iterator[OffsetCommitted]:
    for machine in machines:
        if machine is not None:
            yield from machine.offsets


def _row(offset: OffsetCommitted) -> dict[str, Any]:
    return {
        "group_id": offset.group_id,
        "topic": offset.topic,
        "partition": offset.partition,
        "committed_offset": offset.offset,
        "metadata": offset.metadata[:METADATA_CHARACTERS],
    }
