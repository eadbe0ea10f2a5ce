"""In which log directory a partition belongs (KIP-858)."""

from __future__ import annotations

from uuid import UUID

import pytest

from tailrace.metadata.directories import LOST, MIGRATING, UNASSIGNED
from tailrace_broker.directories.placement import Dir, choose

A, B, GONE = UUID(int=101), UUID(int=102), UUID(int=103)
BOTH = [Dir(A, True, 5), Dir(B, True, 3)]
B_FAILED = [Dir(A, True, 5), Dir(B, False, 3)]
B_UNREADABLE = [Dir(A, True, 5), Dir(UUID(int=0), False, 0)]
NONE_LEFT = [Dir(A, False, 5), Dir(B, False, 3)]


@pytest.mark.parametrize(
    ("dirs", "present", "assigned", "expected"),
    [
        (BOTH, None, UNASSIGNED, 1),  # new: where the fewest are
        (BOTH, None, None, 1),  # metadata that say nothing
        (BOTH, None, A, 0),  # made before a crash, lost with the page cache
        (BOTH, None, GONE, 1),  # another disk in its place: there is nothing to wait for
        (BOTH, 0, B, 0),  # what is found counts
        (BOTH, 0, None, 0),
        (B_FAILED, None, UNASSIGNED, 0),
        (B_FAILED, None, B, None),  # it lies on the dir that failed
        (B_FAILED, None, A, 0),
        (B_FAILED, None, LOST, None),
        (B_FAILED, None, MIGRATING, None),
        (B_FAILED, None, None, None),  # it may lie there
        (B_FAILED, 1, B, 1),
        (B_FAILED, 1, UNASSIGNED, 0),  # a new topic of the name of one that lies there
        (B_UNREADABLE, None, B, None),
        (B_UNREADABLE, None, UNASSIGNED, 0),
        (NONE_LEFT, None, UNASSIGNED, None),
    ],
)
def test_a_partition_goes_where_it_lies_else_where_the_image_says_else_where_the_fewest_are(
    dirs: list[Dir], present: int | None, assigned: UUID | None, expected: int | None
) -> None:
    assert choose(dirs, present, assigned) == expected


@pytest.mark.parametrize(
    ("dirs", "present", "assigned", "expected"),
    [
        (BOTH, None, GONE, None),  # its records may come back with the dir
        (B_FAILED, None, GONE, None),
        (BOTH, None, A, 0),
        (BOTH, None, UNASSIGNED, 1),  # new: there is nothing to lose
        (BOTH, None, MIGRATING, 1),
        (BOTH, None, None, 1),
        (BOTH, 0, GONE, 0),  # somebody carried it over
    ],
)
def test_what_nobody_can_refill_is_not_made_anew_while_its_dir_is_away(
    dirs: list[Dir], present: int | None, assigned: UUID | None, expected: int | None
) -> None:
    assert choose(dirs, present, assigned, refilled=False) == expected
