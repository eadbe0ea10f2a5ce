"""Windows of a topic: their bounds, where the next one goes on, and waiting for what comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from support.reading import Clock, Cluster
from tailrace.errors import ApiError
from tailrace.reading.reader import TopicReader
from tailrace.reading.start import EARLIEST, LATEST, LATEST_TIMESTAMP
from tailrace.reading.window import Bounds, FoundRecord, Matches, WindowReader, size_of
from tailrace.records.record import Record, build

T = TypeVar("T")
ALL = Bounds(1_000, 1 << 20, 1_000, 1 << 20, 60_000)


async def inline(work: Callable[[], T]) -> T:
    return work()


async def window(
    cluster: Cluster, clock: Clock | None = None, matches: Matches | None = None, **find: Any
) -> WindowReader:
    clock = clock or Clock()
    reader = TopicReader(cluster, clock, "t", patience_ms=1_000)
    cursors = await reader.find(find.pop("start", EARLIEST), **{"until": LATEST_TIMESTAMP, **find})
    return WindowReader(reader, cursors, clock, inline, matches)


def values(found: Sequence[FoundRecord]) -> list[tuple[int, bytes | None]]:
    return sorted((one.partition, one.record.value) for one in found)


async def test_a_window_has_what_is_there_and_ends() -> None:
    reading = await window(Cluster(2, 1))
    assert values(await reading.read(ALL)) == [(0, b"0"), (0, b"1"), (1, b"0")]
    assert reading.positions == {0: 2, 1: 1}
    assert reading.scanned_records == 3
    assert await reading.read(ALL) == []
    await reading.close()


@pytest.mark.parametrize(
    "bounds",
    [
        ALL._replace(records=1),
        ALL._replace(size_bytes=1),
        ALL._replace(scanned_records=1),
        ALL._replace(scanned_bytes=1),
    ],
)
async def test_a_window_that_is_full_goes_on_with_the_next_record(bounds: Bounds) -> None:
    reading = await window(Cluster(3))
    pages = [await reading.read(bounds) for _ in range(4)]
    assert [values(page) for page in pages] == [[(0, b"0")], [(0, b"1")], [(0, b"2")], []]
    await reading.close()


async def test_records_that_do_not_match_are_looked_at() -> None:
    reading = await window(Cluster(5), matches=lambda partition, record: record.value == b"3")
    assert values(await reading.read(ALL._replace(scanned_records=2))) == []
    assert reading.positions == {0: 2}
    assert values(await reading.read(ALL)) == [(0, b"3")]
    assert reading.scanned_records == 5
    assert reading.scanned_bytes == 5 * size_of(Record(value=b"0"))
    await reading.close()


async def test_a_window_ends_when_its_time_is_over() -> None:
    clock = Clock()

    class Slow(Cluster):
        async def __call__(self, *asked: Any, **more: Any) -> Any:
            clock.advance(10)
            return await super().__call__(*asked, **more)

    reading = await window(Slow(100), clock)
    assert 0 < len(await reading.read(ALL._replace(time_ms=50))) < 100
    await reading.close()


class Batches(Cluster):
    """A cluster in which each Fetch finds a batch of ten records."""

    def _row(self, part: Any) -> Any:
        row = super()._row(part)
        base = part.fetch_offset - part.fetch_offset % 10
        row.records = bytes(build([Record(value=b"%d" % (base + n)) for n in range(10)], base_offset=base))
        return row


async def test_a_window_ends_in_the_middle_of_a_batch_when_its_time_is_over() -> None:
    clock = Clock()

    def slow(partition: int, record: Record) -> bool:
        clock.advance(100)
        return False

    reading = await window(Batches(20), clock, slow)
    assert await reading.read(ALL._replace(time_ms=150)) == []
    assert reading.positions == {0: 2}
    await reading.close()


async def test_no_batch_is_kept_while_others_have_the_thread() -> None:
    clock, cluster = Clock(), Batches(20)
    taken: list[int] = []

    def slow(partition: int, record: Record) -> bool:
        clock.advance(100)
        taken.append(record.offset)
        return True

    reading = await window(cluster, clock, slow)
    assert len(await reading.read(ALL)) == 20
    assert taken == list(range(20))
    assert len(cluster.fetched) == 8  # 3 records of each answer, 4 at the end of a batch
    await reading.close()


async def test_what_is_given_up_is_not_evaluated() -> None:
    taken: list[int] = []
    works: list[Callable[[], Any]] = []

    async def never(work: Callable[[], T]) -> T:
        works.append(work)
        raise asyncio.CancelledError

    def taking(partition: int, record: Record) -> bool:
        taken.append(record.offset)
        return True

    clock, cluster = Clock(), Batches(20)
    reader = TopicReader(cluster, clock, "t", patience_ms=1_000)
    cursors = await reader.find(EARLIEST, until=LATEST_TIMESTAMP)
    reading = WindowReader(reader, cursors, clock, never, taking)
    with pytest.raises(asyncio.CancelledError):
        await reading.read(ALL)
    works[0]()  # the thread comes to it later
    assert taken == []
    await reading.close()


class Growing(Cluster):
    """A cluster in which a record comes after some Fetch requests that found none."""

    def __init__(self, *ends: int, after: int, clock: Clock) -> None:
        super().__init__(*ends)
        self.after = after
        self.clock = clock

    async def __call__(self, *asked: Any, **more: Any) -> Any:
        answer = await super().__call__(*asked, **more)
        if len(self.fetched) == self.after:
            self.ends = [end + 1 for end in self.ends]
        self.clock.advance(getattr(asked[0], "max_wait_ms", 0))
        return answer


@pytest.mark.parametrize("has_end", [True, False])
async def test_a_window_waits_for_the_first_record_that_comes(has_end: bool) -> None:
    clock = Clock()
    until = {} if has_end else {"until": None}
    reading = await window(Growing(4, after=3, clock=clock), clock, start=LATEST, **until)
    assert values(await reading.read(ALL, 60_000)) == [(0, b"4")]
    assert clock.monotonic_ms() == 4_000
    await reading.close()


@pytest.mark.parametrize("has_end", [True, False])
async def test_a_window_waits_no_longer_than_it_may(has_end: bool) -> None:
    clock = Clock()
    until = {} if has_end else {"until": None}
    reading = await window(Growing(4, after=30, clock=clock), clock, start=LATEST, **until)
    assert await reading.read(ALL, 2_500) == []
    assert clock.monotonic_ms() == 2_500
    await reading.close()


async def test_an_error_comes_after_what_was_found_before_it() -> None:
    class Damaged(Cluster):
        def _row(self, part: Any) -> Any:
            row = super()._row(part)
            if part.fetch_offset == 1:
                row.records = row.records[:-1] + b"?"
            return row

    reading = await window(Damaged(3))
    assert values(await reading.read(ALL)) == [(0, b"0")]
    with pytest.raises(ApiError, match="CRC"):
        await reading.read(ALL)
    await reading.close()
