"""Topics: what the image says of them, and how many records and bytes they have, which their leaders are asked."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from tailrace.clock import Clock
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.kafka.topics import INTERNAL_TOPICS
from tailrace.metadata.image import MetadataImage, TopicImage
from tailrace.metadata.moves import portions
from tailrace.wire.hot.list_offsets import LATEST, list_offsets_request
from tailrace.wire.messages import DescribeLogDirsRequest
from tailrace_gateway.rest.backend import READ_TIMEOUT_MS, AdminBackend
from tailrace_gateway.rest.console.hub import LookResult
from tailrace_gateway.rest.console.rows import Row
from tailrace_gateway.rest.errors import unknown_topic
from tailrace_gateway.rest.groups.kafka import LIST_OFFSETS_VERSION

EARLIEST: Final = -2
IMAGE_MS: Final = 500  # an image that is the same costs nothing
FIGURES_MS: Final = 3_000
# Waited for each partition that a look asks three things about: some 15 µs of processor time, 1 % of a core.
PARTITION_MS: Final = 1.5
PARTITIONS_MAX: Final = 20_000
_LOG_DIRS_VERSION: Final = 4


class TopicsLook:
    """One row for each topic of an image; a topic that has not changed keeps its row."""

    def __init__(self, backend: AdminBackend) -> None:
        self._backend = backend
        self._image: MetadataImage | None = None
        self._rows: dict[str, Row] = {}
        self._made: dict[str, TopicImage] = {}

    async def look(self) -> LookResult:
        image = self._backend.image()
        if image is not self._image:
            old, rows = self._made, self._rows

            def made() -> tuple[dict[str, Row], dict[str, TopicImage]]:  # asks for the right to each topic
                topics = dict(image.topics)
                return {
                    name: rows[name] if old.get(name) is topic else _topic_row(name, topic)
                    for name, topic in topics.items()
                }, topics

            self._rows, self._made = await self._backend.run(made)
            self._image = image
        return LookResult(self._rows, IMAGE_MS)


def _topic_row(name: str, topic: TopicImage) -> Row:
    parts = topic.partitions
    return {
        "partitions": len(parts),
        "replication": len(parts[0].replicas) if parts else 0,
        "internal": name in INTERNAL_TOPICS,
        "offline": sum(part.leader < 0 for part in parts),
        "under_replicated": sum(part.is_under_replicated for part in parts),
    }


class _Figures(NamedTuple):
    """By partition; one without an answer is in none."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    sizes: Mapping[tuple[int, str, int], int]  # by broker, topic and partition
    silent: list[int]


async def _figures(backend: AdminBackend, wanted: Iterable[TopicPartition]) -> _Figures:
    """The offsets and sizes of partitions, asked of each leader."""
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for key in wanted:
        if (leader := backend.leader(*key)) >= 0:
            by_leader[leader].append(key)
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    sizes: dict[tuple[int, str, int], int] = {}
    silent = []

    async def ask(node: int, keys: list[TopicPartition]) -> None:
        try:
            await _offsets(backend, node, keys, LATEST, ends)
            await _offsets(backend, node, keys, EARLIEST, starts)
            await _sizes(backend, node, keys, sizes)
        except (ApiError, OSError) as error:
            if not _is_refused(error):  # sizes take a right of their own
                silent.append(node)

    await asyncio.gather(*(ask(node, keys) for node, keys in by_leader.items()))
    return _Figures(starts, ends, sizes, sorted(silent))


def _is_refused(error: Exception) -> bool:
    return isinstance(error, ApiError) and error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def _offsets(
    backend: AdminBackend, node: int, keys: list[TopicPartition], at: int, found: dict[TopicPartition, int]
) -> None:
    for portion in portions(dict.fromkeys(keys)):
        request = list_offsets_request({topic: [index for index, _ in rows] for topic, rows in portion}, at)
        for topic in (await backend.ask_broker(node, request, LIST_OFFSETS_VERSION, READ_TIMEOUT_MS)).topics:
            for part in topic.partitions:
                if not part.error_code:
                    found[topic.name, part.partition_index] = part.offset


async def _sizes(
    backend: AdminBackend, node: int, keys: list[TopicPartition], found: dict[tuple[int, str, int], int]
) -> None:
    row = DescribeLogDirsRequest.DescribableLogDirTopic
    for portion in portions(dict.fromkeys(keys)):
        asked = [row(topic=topic, partitions=[index for index, _ in rows]) for topic, rows in portion]
        request = DescribeLogDirsRequest(topics=asked)
        for held in (await backend.ask_broker(node, request, _LOG_DIRS_VERSION, READ_TIMEOUT_MS)).results:
            for topic in held.topics:
                for part in topic.partitions:
                    if not part.is_future_key:
                        found[node, topic.name, part.partition_index] = part.partition_size


def _not_known_of(silent: list[int]) -> str:
    names = ", ".join(map(str, silent[:6]))
    return f"Not known of what broker {names} leads: no answer." if silent else ""


class FiguresLook:
    """One row for each topic: records, bytes of its leaders, records a second since the last look."""

    def __init__(self, backend: AdminBackend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock
        self._before: tuple[float, Mapping[TopicPartition, int]] | None = None

    async def look(self) -> LookResult:
        topics = self._backend.image().topics
        keys = await self._backend.run(lambda: list(islice(_keys(topics), PARTITIONS_MAX)))
        now_ms = self._clock.monotonic_ms()
        found = await _figures(self._backend, keys)
        before = self._before or (now_ms, {})
        rows = await self._backend.run(lambda: dict(_rows(topics, keys, found, now_ms, before)))
        self._before = now_ms, found.ends
        note = _not_known_of(found.silent)
        if len(keys) == PARTITIONS_MAX:
            note += f" Counted are {PARTITIONS_MAX} partitions."
        return LookResult(rows, max(FIGURES_MS, len(keys) * PARTITION_MS), note.strip())


def _rows(
    topics: Mapping[str, TopicImage],
    keys: list[TopicPartition],
    found: _Figures,
    now_ms: float,
    earlier: tuple[float, Mapping[TopicPartition, int]],
) -> Iterator[tuple[str, Row]]:
    before_ms, before = earlier
    seconds = (now_ms - before_ms) / 1000
    by_topic: dict[str, list[int]] = defaultdict(list)
    for name, index in keys:
        by_topic[name].append(index)
    for name, indexes in by_topic.items():
        of_topic = [(name, index) for index in indexes]
        counted = [key for key in of_topic if key in found.ends and key in found.starts]
        held = [(topics[name].partitions[index].leader, name, index) for index in indexes]
        whole = len(counted) == len(topics[name].partitions)
        rate = None
        if whole and seconds and all(key in before for key in of_topic):
            rate = round(sum(found.ends[key] - before[key] for key in of_topic) / seconds, 2)
        yield (
            name,
            {
                "records": sum(found.ends[key] - found.starts[key] for key in counted) if whole else None,
                "bytes": sum(found.sizes[key] for key in held) if all(key in found.sizes for key in held) else None,
                "rate": rate,
            },
        )


def _keys(topics: Mapping[str, TopicImage]) -> Iterator[TopicPartition]:
    for name in sorted(topics):
        for index in range(len(topics[name].partitions)):
            yield name, index


class PartitionsLook:
    """One row for each partition of a topic, by its number."""

    def __init__(self, backend: AdminBackend, clock: Clock, name: str) -> None:
        self._backend = backend
        self._clock = clock
        self._name = name
        self._before: tuple[float, Mapping[TopicPartition, int]] | None = None

    async def look(self) -> LookResult:
        topic = self._backend.image().topic(self._name)
        if topic is None:
            raise unknown_topic()
        keys = [(self._name, index) for index in range(min(len(topic.partitions), PARTITIONS_MAX))]
        now_ms = self._clock.monotonic_ms()
        found = await _figures(self._backend, keys)
        before_ms, before = self._before or (now_ms, {})
        seconds = (now_ms - before_ms) / 1000
        self._before = now_ms, found.ends
        rows: dict[str, Row] = {}
        for (_, index), key, part in zip(keys, keys, topic.partitions, strict=False):
            end = found.ends.get(key)
            earlier = before.get(key)
            rows[str(index)] = {
                "leader": part.leader,
                "leader_epoch": part.leader_epoch,
                "replicas": list(part.replicas),
                "isr": list(part.isr),
                "elr": list(part.eligible_leader_replicas),
                "last_known_elr": list(part.last_known_elr),
                "start": found.starts.get(key),
                "end": end,
                "bytes": found.sizes.get((part.leader, self._name, index)),
                "rate": None if end is None or earlier is None or not seconds else round((end - earlier) / seconds, 2),
            }
        return LookResult(rows, max(FIGURES_MS, len(keys) * PARTITION_MS), _not_known_of(found.silent))
