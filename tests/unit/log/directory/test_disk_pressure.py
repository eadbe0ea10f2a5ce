"""What free space means for producers: the marks and the throttle between them."""

import pytest

from tailrace.log.directory.disk_pressure import AUTOMATIC, MAX_THROTTLE_MS, Level, Marks, judge, marks

MB, GB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("total", "slow", "refuse", "expected"),
    [
        (100 * MB, AUTOMATIC, AUTOMATIC, Marks(5 * MB, 1 * MB)),
        (1000 * GB, AUTOMATIC, AUTOMATIC, Marks(2 * GB, 512 * MB)),
        (100 * MB, 30 * MB, 20 * MB, Marks(30 * MB, 20 * MB)),
        (100 * MB, 0, 0, Marks(0, 0)),
        (100 * MB, 0, AUTOMATIC, Marks(0, 1 * MB)),
        (100 * MB, 10 * MB, 20 * MB, Marks(20 * MB, 20 * MB)),
        (0, AUTOMATIC, AUTOMATIC, Marks(0, 0)),
    ],
)
def test_marks_are_shares_of_the_disk_unless_they_are_set(total: int, slow: int, refuse: int, expected: Marks) -> None:
    assert marks(total, slow, refuse) == expected


@pytest.mark.parametrize(
    ("usable", "level", "throttle_time_ms"),
    [
        (101, Level.NONE, 0),
        (100, Level.NONE, 0),
        (99, Level.SLOWED, 12),
        (60, Level.SLOWED, 500),
        (21, Level.SLOWED, 987),
        (20, Level.SLOWED, MAX_THROTTLE_MS),
        (19, Level.REFUSED, MAX_THROTTLE_MS),
        (0, Level.REFUSED, MAX_THROTTLE_MS),
    ],
)
def test_the_throttle_grows_with_what_is_missing(usable: int, level: Level, throttle_time_ms: int) -> None:
    pressure = judge(usable, Marks(100, 20))
    assert (pressure.level, pressure.throttle_time_ms) == (level, throttle_time_ms)


def test_less_space_never_means_less_throttle() -> None:
    throttles = [judge(usable, Marks(1000, 300)).throttle_time_ms for usable in range(1100)]
    assert throttles == sorted(throttles, reverse=True)
    assert set(throttles) >= {0, MAX_THROTTLE_MS}


def test_a_mark_of_nothing_is_never_reached() -> None:
    assert judge(0, Marks(0, 0)).level == Level.NONE
    assert judge(0, Marks(0, 1)).level == Level.REFUSED
    assert judge(5, Marks(10, 10)).level == Level.REFUSED


@pytest.mark.parametrize(("usable", "expected"), [(20, False), (10, False), (9, True)])
def test_followers_stop_at_half_of_the_reserve(usable: int, expected: bool) -> None:
    assert judge(usable, Marks(100, 20)).refuses_followers == expected


def test_the_refusal_says_why_and_where() -> None:
    sentence = judge(1_500, Marks(9_000, 2_000)).sentence("/data/b")
    assert "/data/b has 1,500 bytes left" in sentence
    assert "2,000 of log.dir.pressure.refuse.bytes" in sentence
