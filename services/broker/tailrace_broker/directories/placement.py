"""In which log directory a partition belongs (KIP-858). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from tailrace.metadata.directories import RESERVED, UNASSIGNED


class Dir(NamedTuple):
    """One configured directory: its id (of no use if it could not be read), its state, its number of partitions."""

    directory_id: UUID
    online: bool
    held: int


def choose(dirs: Sequence[Dir], present: int | None, assigned: UUID | None, *, refilled: bool = True) -> int | None:
    """Which of dirs the partition belongs in; None if its records may lie elsewhere, so that none must be made.

    present is the directory it was found in; assigned what the image says, None if it says nothing. What is found
    counts, whatever the image says. A partition that was never placed goes where the fewest are. One that lay in a
    directory that is none of these is made again only if it is refilled: as the leader it would give offsets twice.
    """
    if present is not None and (dirs[present].online or assigned != UNASSIGNED):
        return present
    online = [at for at, one in enumerate(dirs) if one.online]
    if assigned is not None and assigned not in RESERVED:
        for at in online:
            if dirs[at].directory_id == assigned:
                return at
        if not refilled:
            return None
    if len(online) < len(dirs) and assigned != UNASSIGNED:
        return None
    return min(online, key=lambda at: dirs[at].held) if online else None
