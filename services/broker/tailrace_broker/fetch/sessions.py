"""Fetch sessions (KIP-227): a client names its partitions once and hears only of what changed. Pure.

A session is bounded by what the client asked for; the cache by max.incremental.fetch.session.cache.slots: the session
that was used longest ago makes room if it was idle for two minutes, else the newcomer fetches without a session.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tailrace.errors import ApiError, ErrorCode
from tailrace.wire.hot.fetch import Fetch, FetchPartition, PartitionData

if TYPE_CHECKING:
    from tailrace_broker.replication.caught_up import CaughtUp

FINAL_EPOCH = -1
EVICTION_MS = 120_000
_MAX_EPOCH = 2**31 - 1


class Session:
    """The partitions of one client, in the order it named them, and what it last heard of each."""

    __slots__ = ("epoch", "known", "quiet", "session_id", "used_ms", "wants")

    def __init__(self, session_id: int, now_ms: float) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.used_ms = now_ms
        self.wants: OrderedDict[tuple[bytes, int], FetchPartition] = OrderedDict()
        self.known: dict[tuple[bytes, int], tuple[int, int, int]] = {}
        # A follower's: what its leader need not look at closely; None until it was heard once more, not named.
        self.quiet: dict[tuple[bytes, int], CaughtUp | None] = {}

    def update(self, request: Fetch) -> None:
        """Adds, replaces and forgets partitions as an incremental request says."""
        for key, rows in request.topics:
            for row in rows:
                self.wants[key, row.partition] = row
                self.quiet.pop((key, row.partition), None)
        for key, gone in request.forgotten:
            for partition in gone:
                self.wants.pop((key, partition), None)
                self.known.pop((key, partition), None)
                self.quiet.pop((key, partition), None)

    def news(self, key: bytes, row: PartitionData) -> bool:
        """Whether the client must hear of this row; remembers that it did."""
        seen = (row.high_watermark, row.last_stable_offset, row.log_start_offset)
        place = (key, row.partition)
        if row.error_code:
            self.known.pop(place, None)
            return True
        # Where else to read (KIP-392) or where to cut (KIP-595) is told each time: the row brings nothing but that.
        to_do = row.preferred >= 0 or row.diverging is not None
        if not row.records and not to_do and self.known.get(place) == seen:
            return False
        self.known[place] = seen
        return True

    def rotate(self, served: Iterable[tuple[bytes, int]]) -> None:
        """Moves partitions that got data to the end, so that none starves the others."""
        for place in served:
            if place in self.wants:
                self.wants.move_to_end(place)


class FetchSessions:
    """The sessions of one broker."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: OrderedDict[int, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: Fetch, now_ms: float, new_id: int) -> tuple[Session | None, bool]:
        """The session of a request and whether its answer is full (names every partition).

        None means sessionless. Raises ApiError FETCH_SESSION_ID_NOT_FOUND or INVALID_FETCH_SESSION_EPOCH.
        """
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (0, FINAL_EPOCH):
            self._sessions.pop(session_id, None)
            if epoch == FINAL_EPOCH or not self._room(now_ms) or not any(rows for _, rows in request.topics):
                return None, True
            session = self._sessions[new_id] = Session(new_id, now_ms)
            session.update(request)
            return session, True
        found = self._sessions.get(session_id)
        if found is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if found.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        found.epoch = 1 if epoch == _MAX_EPOCH else epoch + 1
        found.used_ms = now_ms
        self._sessions.move_to_end(session_id)
        found.update(request)
        return found, False

    def _room(self, now_ms: float) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms < EVICTION_MS:
            return False
        self._sessions.pop(oldest.session_id)
        return True


def wanted(request: Fetch, session: Session | None) -> Iterator[tuple[bytes, FetchPartition]]:
    """Every partition a request wants, in order."""
    if session is not None:
        yield from ((key, row) for (key, _), row in session.wants.items())
        return
    for key, rows in request.topics:
        for row in rows:
            yield key, row
