"""Retention reads no more indexes than it needs, and not where others wait."""

import pytest

from support.logs import DIRECTORY, NOW, append, open_log, with_settings
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.log import Log
from tailrace.log.retention import begin_look_at_age, delete_retention

SETTINGS = with_settings(retention_ms=100, segment_bytes=150)


def reopened(**settings: int) -> tuple[MemoryFilesystem, Log]:
    """Ten segments of one record, ten ms apart, that a clean start knows nothing of."""
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, SETTINGS)
    for number in range(10):
        append(log, bytes(50), timestamp=NOW + 10 * number)
        log.flush()  # each with a snapshot of the producers
    log.close()
    filesystem.kill()
    config = with_settings(**{"retention_ms": 100, "segment_bytes": 150, **settings})
    return filesystem, open_log(filesystem, config, recovery_point=10, clean=True)


def indexed(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments if segment.indexes is not None]


def test_the_oldest_segment_that_stays_is_the_last_that_is_looked_at() -> None:
    _, log = reopened()
    assert indexed(log) == [9]
    assert delete_retention(log, NOW + 121, log.log_end_offset) == 3
    assert (log.log_start_offset, indexed(log)) == (3, [3, 9])


@pytest.mark.parametrize("settings", [{"retention_ms": -1}, {"cleanup_policy": "compact"}])
def test_who_does_not_go_by_age_looks_at_none(settings: dict[str, int]) -> None:
    _, log = reopened(**settings)
    assert begin_look_at_age(log, NOW + 121, 10) is None
    assert delete_retention(log, NOW + 10**6, 10) == 0
    assert indexed(log) == [9]


def test_nothing_is_read_for_an_age_that_a_thread_can_read() -> None:
    filesystem, log = reopened()
    assert delete_retention(log, NOW + 121, 10, known_only=True) == 0
    looked = 0
    while (look := begin_look_at_age(log, NOW + 121, 10)) is not None:
        look.run()
        assert look.take_up()
        looked += 1
    assert (looked, indexed(log)) == (4, [0, 1, 2, 3, 9])
    filesystem.fail_all(OSError(5, "Input/output error"), ("open", "read"))
    assert delete_retention(log, NOW + 121, 10, known_only=True) == 3


def test_what_is_not_committed_or_was_deleted_is_not_asked_for_its_age() -> None:
    _, log = reopened()
    assert begin_look_at_age(log, NOW + 10**6, 0) is None
    log.advance_log_start_offset(4)
    assert delete_retention(log, NOW, 10) == 4
    assert begin_look_at_age(log, NOW + 10**6, 4) is None


def test_an_index_that_was_damaged_is_made_anew_by_the_look() -> None:
    filesystem, log = reopened()
    filesystem.remove(f"{DIRECTORY}/{0:020d}.timeindex")
    look = begin_look_at_age(log, NOW + 121, 10)
    assert look is not None
    look.run()
    assert look.take_up()
    assert delete_retention(log, NOW + 101, 10, known_only=True) == 1


def test_a_look_at_what_was_cut_meanwhile_does_not_count() -> None:
    _, log = reopened()
    look = begin_look_at_age(log, NOW + 121, 10)
    assert look is not None
    look.run()
    log.truncate_to(5)
    assert not look.take_up()
    assert log.segments[0].indexes is None
