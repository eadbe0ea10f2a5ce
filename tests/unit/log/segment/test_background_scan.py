"""Who does not wait for the disk never does: what must come from there, another thread brings, or finds out itself."""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.logs import DIRECTORY, NOW, append, newest, open_log, some_batch, with_settings
from tailrace.errors import ApiError
from tailrace.log import lookup
from tailrace.log.background_lookup import Search
from tailrace.log.compaction import plan
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.log import Log
from tailrace.log.read import CACHED, Needs, NeedsPages, NeedsScan, ReadStopped, Records, Slice, TimestampOffset
from tailrace.log.retention import delete_retention
from tailrace.log.segment import background_scan
from tailrace.log.segment.view import BackgroundScan
from tailrace.records.compression import Codec
from tailrace.records.record import Record, build

T = TypeVar("T")
BATCHES = 60
SETTINGS = with_settings(segment_bytes=1500, index_interval_bytes=100)


class Loop:
    """The thread that must not wait for a disk; what it has done elsewhere may."""

    def __init__(self, filesystem: MemoryFilesystem) -> None:
        self.waits = 0
        self._elsewhere = False
        filesystem.on_disk_read = self._wait

    def _wait(self) -> None:
        assert self._elsewhere
        self.waits += 1

    def elsewhere(self, run: Callable[[], T]) -> T:
        self._elsewhere = True
        try:
            return run()
        finally:
            self._elsewhere = False

    def fetch(self, log: Log, offset: int, max_bytes: int, tries: float = math.inf) -> bytes:
        """As a broker reads: whatever is missing is brought, then it looks again."""
        while tries >= 0:
            tries -= 1
            found = read(log, offset, max_bytes)
            if isinstance(found, Records):
                data = found.data or CACHED.read(found.file, found.length, found.position)
                if data is not None:
                    return bytes(data[: found.length])
            if isinstance(found, NeedsScan):
                assert isinstance(found.scan, BackgroundScan)
                self.elsewhere(partial(background_scan.run, found.scan))
            else:
                piece = found if isinstance(found, Records) else found.slice
                self.elsewhere(partial(piece.file.warm, piece.length, piece.position))
        raise AssertionError("it was asked for too often")

    def look_up(self, log: Log, timestamp: int | None, end: int) -> TimestampOffset | None:
        search = Search(log, timestamp, end)
        try:
            return self.elsewhere(search.run)
        finally:
            assert not search.stale
            search.take_up()


def read(log: Log, offset: int, max_bytes: int) -> Records | Needs:
    """As a thread does that must not wait for the disk."""
    return log.read(offset, max_bytes, None, True, CACHED)


def told(read: Callable[..., Any], *arguments: Any) -> Any:
    """What comes of it, or the refusal without its words."""
    try:
        answer = read(*arguments)
        return bytes(answer.read()) if isinstance(answer, Slice) else answer
    except ApiError as refused:
        return refused.code.name


def written(seed: int, page_bytes: int = 64) -> MemoryFilesystem:
    """A log that was closed cleanly, with times in no order, of which nothing is in memory."""
    filesystem, choice = MemoryFilesystem(), random.Random(seed)
    filesystem.page_bytes = page_bytes
    log = open_log(filesystem, SETTINGS)
    for _ in range(BATCHES):
        records = [Record(timestamp=choice.randrange(500), value=b"v") for _ in range(choice.randrange(1, 4))]
        log.append([build(records, compression=choice.choice(list(Codec)))], 3, NOW)
    log.close()
    filesystem.kill()
    return filesystem


def reopened(filesystem: MemoryFilesystem) -> Log:
    names = [name for name in filesystem.list(DIRECTORY) if name.endswith(".log")]
    end = open_log(filesystem.fork(), SETTINGS, recovery_point=10**6, clean=False).log_end_offset
    assert len(names) > 2
    return open_log(filesystem, SETTINGS, recovery_point=end, clean=True)


@given(seed=st.integers(0, 9), suffix=st.sampled_from([".log", ".index", ".timeindex"]), data=st.data())
def test_reads_are_answered_as_if_all_were_in_memory(seed: int, suffix: str, data: st.DataObject) -> None:
    """Also of a damaged log, which has to be walked through."""
    filesystem = written(seed)
    if data.draw(st.booleans(), "damaged"):
        names = sorted(name for name in filesystem.list(DIRECTORY) if name.endswith(suffix))
        path = f"{DIRECTORY}/{data.draw(st.sampled_from(names))}"
        size = len(filesystem.content(path))
        if size:
            filesystem.decay(path, data.draw(st.integers(0, 8 * size - 1), "bit"))
    other = filesystem.fork()
    hot, cold = reopened(other), reopened(filesystem)
    loop = Loop(filesystem)
    for _ in range(8):
        offset = data.draw(st.integers(0, hot.log_end_offset - 1))
        max_bytes = data.draw(st.sampled_from([1, 300, 10_000]))
        filesystem.drop_caches()
        expected = told(hot.read, offset, max_bytes)
        assert told(loop.fetch, cold, offset, max_bytes) == expected
    assert loop.waits


@given(seed=st.integers(0, 9), data=st.data())
def test_lookups_are_answered_as_if_all_were_in_memory(seed: int, data: st.DataObject) -> None:
    filesystem = written(seed)
    if data.draw(st.booleans(), "damaged"):
        path = data.draw(st.sampled_from(sorted(path for path in filesystem.files() if DIRECTORY in path)))
        if size := len(filesystem.content(path)):
            filesystem.decay(path, data.draw(st.integers(0, 8 * size - 1), "bit"))
    hot, cold = reopened(filesystem.fork()), reopened(filesystem)
    heard: list[Any] = []
    cold.segments.on_damage = heard.append
    loop = Loop(filesystem)
    for _ in range(8):
        timestamp = data.draw(st.none() | st.integers(0, 510))
        end = data.draw(st.integers(0, hot.log_end_offset))
        if data.draw(st.booleans(), "forgotten"):
            filesystem.drop_caches()
        expected = told(lookup.find, hot, timestamp, end)
        found = told(lookup.find_in_haste, cold, timestamp, end)
        if isinstance(found, NeedsPages | NeedsScan):
            assert told(loop.look_up, cold, timestamp, end) == expected
            found = told(lookup.find_in_haste, cold, timestamp, end)
        assert found == expected or isinstance(found, NeedsPages | NeedsScan)
    assert len(heard) == len(set(map(id, heard)))


def test_a_fetch_of_cold_data_asks_for_little_more_than_once() -> None:
    filesystem = written(1, page_bytes=4096)
    log, loop = reopened(filesystem), Loop(filesystem)
    filesystem.drop_caches()
    for offset in (20, 0, 21):  # of one segment's: its indexes, its heads, its records
        assert loop.fetch(log, offset, 300, tries=3)


def test_a_view_and_the_file_that_it_opened_go_with_who_wanted_them() -> None:
    log = reopened(written(1))
    gc.disable()
    try:
        walk = BackgroundScan(log.segments[0])
        background_scan.run(walk)
        view = ref(walk.view.snapshot)
        del walk
        assert view() is None
    finally:
        gc.enable()


def test_what_a_lookup_has_read_is_not_read_again() -> None:
    filesystem = written(2)
    log, loop = reopened(filesystem), Loop(filesystem)
    first = loop.look_up(log, None, log.log_end_offset)
    opens = filesystem.opens
    assert loop.look_up(log, None, log.log_end_offset) == first
    assert first is not None
    assert newest(log) == first.timestamp
    assert filesystem.opens - opens <= len(log.segments)  # their indexes are known


def test_a_gap_between_segments_is_crossed_without_waiting() -> None:
    filesystem = MemoryFilesystem()
    config = with_settings(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0, segment_bytes=400)
    log = open_log(filesystem, config)
    for number in range(12):
        keyed = Record(timestamp=NOW, key=b"%d" % (number == 4), value=bytes(100))
        log.append([build([keyed])], 0, NOW)
    log.roll()
    compaction = plan.begin(log, NOW, log.log_end_offset)
    assert compaction is not None
    compaction.run()
    plan.finish(log, compaction)
    log.append([build([Record(timestamp=NOW, key=b"2")])], 0, NOW)
    log.flush()
    loop, end = Loop(filesystem), log.log_end_offset
    expected = [log.read(offset, 300).read() for offset in range(end)]
    for offset in range(end):
        filesystem.drop_caches()
        log.segments.places.clear()
        assert loop.fetch(log, offset, 300) == expected[offset]
    assert len(log.segments) > 1 and loop.waits


def test_what_a_lookup_has_read_is_looked_up_at_once_from_then_on() -> None:
    filesystem = written(2)
    log, loop = reopened(filesystem), Loop(filesystem)
    assert isinstance(lookup.find_in_haste(log, 250, log.log_end_offset), NeedsPages | NeedsScan)
    found = loop.look_up(log, 250, log.log_end_offset)
    assert found is not None
    assert lookup.find_in_haste(log, 250, log.log_end_offset) == found
    filesystem.drop_caches()
    assert isinstance(lookup.find_in_haste(log, 250, log.log_end_offset), NeedsPages | NeedsScan)


def test_a_lookup_in_haste_leaves_nothing_behind() -> None:
    """Neither for who reads next, nor a walk that nobody does."""
    filesystem, log = damaged_while_open()
    assert isinstance(lookup.find_in_haste(log, NOW, 6), NeedsPages | NeedsScan)
    append(log, b"006", timestamp=NOW + 99)
    walk = wanted_walk(log, 1)
    assert walk.view.snapshot.size_bytes == log.segments.active.size_bytes
    filesystem.drop_caches()
    assert lookup.find(log, NOW + 99) == (NOW + 99, 6, 0)


def cut(log: Log) -> None:
    log.truncate_to(log.log_end_offset - 1)


def give_up(log: Log) -> None:
    log.config = with_settings(retention_bytes=1)
    assert delete_retention(log, NOW, log.log_end_offset)


def rename(log: Log) -> None:
    log.filesystem.rename(DIRECTORY, DIRECTORY + ".elsewhere")
    log.renamed(DIRECTORY + ".elsewhere")


@pytest.mark.parametrize("change", [cut, give_up, rename, Log.abandon, lambda log: log.reset_to(500)])
def test_a_search_is_stale_when_files_were_changed_under_it(change: Callable[[Log], None]) -> None:
    log = reopened(written(3))
    search = Search(log, None, log.log_end_offset)
    assert not search.stale
    change(log)
    assert search.stale


def test_appends_and_rolls_do_not_disturb_a_search() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, SETTINGS)
    append(log, b"v", timestamp=5)
    append(log, b"v", timestamp=9)
    search, newest = Search(log, 6, 2), Search(log, None, 2)
    for number in range(40):
        append(log, bytes(50), timestamp=7 + number % 5)
    assert len(log.segments) > 1
    for one in (search, newest):
        assert one.run() == (9, 1, 0)
        assert not one.stale
        one.take_up()
    assert lookup.find(log, None) == (11, 6, 0)


def test_who_leaves_does_not_wait_any_more() -> None:
    filesystem = written(4)
    log = reopened(filesystem)
    filesystem.drop_caches()
    search = Search(log, None, log.log_end_offset)
    search.stop()
    with pytest.raises(ReadStopped):
        search.run()


def damaged_while_open() -> tuple[MemoryFilesystem, Log]:
    """The base offset of its second batch is wrong, which nobody has noticed."""
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, with_settings(segment_bytes=10**6, index_interval_bytes=10))
    for number in range(6):
        append(log, b"%03d" % number, timestamp=NOW + number)
    log.flush()
    size = len(some_batch(b"000"))
    filesystem.decay(log.segments.active.path(".log"), 8 * (size + 7))
    return filesystem, log


def wanted_walk(log: Log, offset: int) -> BackgroundScan:
    needs = read(log, offset, 10_000)
    assert isinstance(needs, NeedsScan) and isinstance(needs.scan, BackgroundScan)
    return needs.scan


def test_one_walk_serves_all_who_need_it_and_what_was_appended_meanwhile_counts() -> None:
    filesystem, log = damaged_while_open()
    heard: list[Any] = []
    log.segments.on_damage = heard.append
    walk = wanted_walk(log, 1)
    assert wanted_walk(log, 1) is walk
    append(log, b"006", timestamp=NOW + 99)
    Loop(filesystem).elsewhere(partial(background_scan.run, walk))
    append(log, b"007", timestamp=NOW + 7)
    assert told(read, log, 1, 10_000) == "CORRUPT_MESSAGE"
    assert len(heard) == 1
    assert [len(told(read, log, offset, 1)) for offset in (0, 2, 7)] == [len(some_batch(b"000"))] * 3
    assert lookup.find(log, NOW + 8) == lookup.find(log, None)
    assert log.segments.active.latest_offset == 6


def test_a_cut_makes_a_walk_worthless() -> None:
    _, log = damaged_while_open()
    walk = wanted_walk(log, 1)
    background_scan.run(walk)
    log.truncate_to(4)
    append(log, b"another", timestamp=NOW + 50)
    assert told(read, log, 1, 1) == "CORRUPT_MESSAGE"
    assert b"another" in told(read, log, 4, 10_000)
    assert log.log_end_offset == 5
    assert told(lookup.find, log, NOW + 4) == (NOW + 50, 4, 0)


def test_a_walk_that_failed_is_begun_anew() -> None:
    filesystem, log = damaged_while_open()
    walk = wanted_walk(log, 1)
    filesystem.fail_next("read", OSError(5, "Input/output error"))
    with pytest.raises(OSError, match="Input/output"):
        background_scan.run(walk)
    again = wanted_walk(log, 1)
    assert again is not walk
    background_scan.run(again)
    assert told(read, log, 1, 10_000) == "CORRUPT_MESSAGE"


def test_a_hole_at_the_end_is_looked_for_again_when_more_was_appended() -> None:
    filesystem, log = damaged_while_open()
    size = len(some_batch(b"000"))
    filesystem.decay(log.segments.active.path(".log"), 8 * (5 * size + 7))
    walk = wanted_walk(log, 1)
    append(log, b"006")
    background_scan.run(walk)
    assert wanted_walk(log, 1) is not walk
    background_scan.run(wanted_walk(log, 1))
    assert log.read(6, 1).next_offset == 7
    assert [told(read, log, at, 1) for at in (1, 5)] == ["CORRUPT_MESSAGE"] * 2
