"""The segments of a log and where they begin stay one thing, whatever comes and goes."""

from __future__ import annotations

from collections.abc import Callable

from tailrace.log.config import LogConfig
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.log import Log
from tailrace.log.segment.segment import Segment
from tailrace.log.segments import LogSegments

CONFIG = LogConfig(index_interval_bytes=7)


def segment(base_offset: int) -> Segment:
    return Segment(MemoryFilesystem(), "/t-0", base_offset, 0)


def some(*bases: int) -> LogSegments:
    return LogSegments([segment(base) for base in bases], CONFIG)


def test_every_segment_has_the_settings_and_the_reader_of_its_log() -> None:
    segments = some(0, 5)
    segments.replace(0, 1, segment(0))
    for one in segments:
        assert one.index_interval_bytes == 7
    segments.configure(LogConfig(index_interval_bytes=9))
    assert [one.index_interval_bytes for one in segments] == [9, 9]


def test_the_bases_are_those_of_the_segments_and_the_last_takes_appends() -> None:
    segments = some(0, 5, 9, 12)
    segments.replace(1, 2, segment(5))
    steps: list[Callable[[], None]] = [
        lambda: segments.add(segment(20)),
        lambda: segments.drop_first(1),
        lambda: segments.drop_active(),
        lambda: segments.keep_first(1),
    ]
    expected = [[0, 5, 12, 20], [5, 12, 20], [5, 12], [5]]
    for step, bases in zip(steps, expected, strict=True):
        segments.remember(5, segments[0], 0)
        step()
        assert segments.bases == [one.base_offset for one in segments] == bases
        assert segments.active is segments[-1]
    assert segments.active.end_offset is None and not segments.places


def test_an_offset_below_the_first_segment_is_looked_for_in_the_first() -> None:
    segments = some(5, 9)
    assert [segments.index_of(offset) for offset in (0, 5, 8, 9, 100)] == [0, 0, 0, 1, 1]
    assert segments.ends(11) == [9, 11]


def test_a_log_has_few_attributes_because_its_parts_own_theirs() -> None:
    assert len(vars(Log.open(MemoryFilesystem(), "/t-0", CONFIG))) <= 17
