"""Fetch sessions (KIP-227): a client names its partitions once and hears only of what changed. Pure.

The cache is bounded by max.incremental.fetch.session.cache.slots, and by the partitions of all sessions, of which Kafka
has no bound: the session that was used longest ago makes room if it was idle for two minutes, else the newcomer fetches
without a session. A session has as many partitions as its client named, MOST_OF_ONE at most: one that names more
fetches without, too, and one that grows beyond is forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from tailrace.errors import ApiError, ErrorCode
from tailrace.wire.hot.fetch import Fetch, FetchPartition, PartitionData

if TYPE_CHECKING:
    from tailrace_broker.replication.caught_up import FollowedPartitions

FINAL_EPOCH = -1
EVICTION_MS = 120_000
MOST_OF_ONE: Final = 10_000
MOST_PARTITIONS: Final = 500_000  # some 200 MB
_MAX_EPOCH = 2**31 - 1


class Session:
    """The partitions of one client, in the order it named them, and what it last heard of each."""

    __slots__ = ("epoch", "followed", "known", "session_id", "used_ms", "wants")

    def __init__(self, session_id: int, now_ms: float) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.used_ms = now_ms
        self.wants: OrderedDict[tuple[bytes, int], FetchPartition] = OrderedDict()
        self.known: dict[tuple[bytes, int], tuple[int, int, int]] = {}
        self.followed: FollowedPartitions | None = None  # of a follower's

    def update(self, request: Fetch) -> None:
        """Adds, replaces and forgets partitions as an incremental request says."""
        for key, rows in request.topics:
            for row in rows:
                self.wants[key, row.partition] = row
                if self.followed is not None:
                    self.followed.named((key, row.partition))
        for key, gone in request.forgotten:
            for partition in gone:
                self.wants.pop((key, partition), None)
                self.known.pop((key, partition), None)
                if self.followed is not None:
                    self.followed.forget((key, partition))

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
                if self.followed is not None and place in self.followed.others:
                    self.followed.others.move_to_end(place)


class FetchSessions:
    """The sessions of one broker."""

    def __init__(self, slots: int, most_partitions: int = MOST_PARTITIONS, most_of_one: int = MOST_OF_ONE) -> None:
        self._slots = slots
        self._most_partitions = most_partitions
        self._most_of_one = most_of_one
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self.partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: Fetch, now_ms: float, new_id: int) -> tuple[Session | None, bool]:
        """The session of a request and whether its answer is full (names every partition).

        None means sessionless. Raises ApiError FETCH_SESSION_ID_NOT_FOUND or INVALID_FETCH_SESSION_EPOCH.
        """
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (0, FINAL_EPOCH):
            self._forget(session_id)
            named = sum(len(rows) for _, rows in request.topics)
            if epoch == FINAL_EPOCH or not named or named > self._most_of_one or not self._room(named, now_ms):
                return None, True
            session = self._sessions[new_id] = Session(new_id, now_ms)
            session.update(request._replace(forgotten=[]))  # there is nothing yet
            self.partition_count += len(session.wants)
            return session, True
        found = self._sessions.get(session_id)
        if found is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if found.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if (request.topics or request.forgotten) and self._outgrows(found, request):
            self._forget(session_id)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)  # it comes again with all that it wants
        found.epoch = 1 if epoch == _MAX_EPOCH else epoch + 1
        found.used_ms = now_ms
        self._sessions.move_to_end(session_id)
        if request.topics or request.forgotten:
            before = len(found.wants)
            found.update(request)
            self.partition_count += len(found.wants) - before
        return found, False

    def _forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partition_count -= len(session.wants)
            if session.followed is not None:
                session.followed.end()

    def _outgrows(self, session: Session, request: Fetch) -> bool:
        """Whether there is no room for what the request adds, or it says more than a session holds."""
        most = sum(len(rows) for _, rows in request.topics)
        if max(most, sum(len(gone) for _, gone in request.forgotten)) > self._most_of_one:
            return True  # to look at each of them takes longer than others can be kept waiting
        if most + len(session.wants) <= self._most_of_one and self._fits(most):
            return False
        added = sum((key, row.partition) not in session.wants for key, rows in request.topics for row in rows)
        return added > 0 and (added + len(session.wants) > self._most_of_one or not self._fits(added))

    def _fits(self, partitions: int) -> bool:
        return self.partition_count + partitions <= self._most_partitions

    def _room(self, partitions: int, now_ms: float) -> bool:
        while len(self._sessions) >= self._slots or not self._fits(partitions):
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms < EVICTION_MS:
                return False
            self._forget(oldest.session_id)
        return True


def wanted(request: Fetch, session: Session | None) -> Iterator[tuple[bytes, FetchPartition]]:
    """Every partition a request wants, in order."""
    if session is not None:
        yield from ((key, row) for (key, _), row in session.wants.items())
        return
    for key, rows in request.topics:
        for row in rows:
            yield key, row
