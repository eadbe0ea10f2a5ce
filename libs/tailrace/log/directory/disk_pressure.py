"""What a log directory that fills up does to its producers: nothing, slow them down, refuse them. Pure.

Below log.dir.pressure.slow.bytes the throttle grows in proportion to what is missing, up to MAX_THROTTLE_MS at
log.dir.pressure.refuse.bytes; below that clients are refused. What is left then is the reserve of the internal topics,
so that groups go on committing, and half of it that of followers.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, NamedTuple

AUTOMATIC: Final = -1
MAX_THROTTLE_MS: Final = 1000
_SLOW_SHARE, _SLOW_MOST = 20, 2 << 30  # a twentieth of the disk, 2 GiB at most
_REFUSE_SHARE, _REFUSE_MOST = 100, 512 << 20


class Marks(NamedTuple):
    """Bytes that are free; 0 turns a mark off."""

    slow_bytes: int
    refuse_bytes: int


class Level(StrEnum):
    """How hard a directory presses its producers."""

    NONE = "none"
    SLOWED = "slowed"
    REFUSED = "refused"

    @property
    def producers(self) -> Literal["accepted", "slowed", "refused"]:
        """What a person is told that they are."""
        match self:
            case Level.NONE:
                return "accepted"
            case Level.SLOWED:
                return "slowed"
            case Level.REFUSED:
                return "refused"


class Pressure(NamedTuple):
    """What holds for one directory."""

    level: Level
    throttle_time_ms: int
    usable_bytes: int
    refuse_bytes: int

    @property
    def refuses_followers(self) -> bool:
        """Whether also what leaders send stays outside, for internal topics must find room still."""
        return self.usable_bytes < self.refuse_bytes // 2

    def sentence(self, path: str) -> str:
        """Why a producer was refused, and where."""
        return (
            f"the log directory {path} has {self.usable_bytes:,} bytes left, fewer than the {self.refuse_bytes:,} of "
            "log.dir.pressure.refuse.bytes: records are taken again when there is space"
        )


def marks(total_bytes: int, slow_bytes: int, refuse_bytes: int) -> Marks:
    """The marks for a disk of that size; AUTOMATIC ones are a share of it. Slowing never begins below refusing."""
    refuse = min(total_bytes // _REFUSE_SHARE, _REFUSE_MOST) if refuse_bytes == AUTOMATIC else refuse_bytes
    slow = min(total_bytes // _SLOW_SHARE, _SLOW_MOST) if slow_bytes == AUTOMATIC else slow_bytes
    return Marks(max(slow, refuse) if slow else 0, refuse)


def judge(usable_bytes: int, at: Marks) -> Pressure:
    """What the space that is left means."""
    if usable_bytes < at.refuse_bytes:
        return Pressure(Level.REFUSED, MAX_THROTTLE_MS, usable_bytes, at.refuse_bytes)
    if usable_bytes < at.slow_bytes:
        missing, whole = at.slow_bytes - usable_bytes, at.slow_bytes - at.refuse_bytes
        throttle_time_ms = max(1, MAX_THROTTLE_MS * missing // whole)
        return Pressure(Level.SLOWED, throttle_time_ms, usable_bytes, at.refuse_bytes)
    return Pressure(Level.NONE, 0, usable_bytes, at.refuse_bytes)
