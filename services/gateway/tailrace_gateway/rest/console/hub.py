"""What open pages watch, asked of the cluster once for all pages of a user, and streamed to each as it changes.

A part is asked for while a page watches it. Each part says how long to wait between two looks, by what a look costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from random import Random
from typing import Final, NamedTuple

from tailrace.clock import Cancellable, Clock
from tailrace_gateway.rest.console.rows import PartRows, Row, RowChange
from tailrace_gateway.rest.errors import as_rest_error, plain

STREAM_MS: Final = 25_000  # less than a request may take; the page asks again from where it is
BEAT_MS: Final = 2_000
COALESCED_MS: Final = 200
KEPT_MS: Final = 30_000  # after the last page went away
EVENT_ROWS: Final = 1_000
PARTS_MAX: Final = 64
USERS_MAX: Final = 16
HUBS_OF_ONE_MAX: Final = 8  # addresses of one user: rights may differ by address
_LOG: Final = logging.getLogger(__name__)


class LookResult(NamedTuple):
    """What one look found; note: what is unknown, in a sentence."""

    rows: Mapping[str, Row]
    wait_ms: float
    note: str = ""


Look = Callable[[], Awaitable[LookResult]]
Looks = Callable[[str], Look]  # by a part's name; raises RestError for one that there is not


class _Part:
    """One part: its rows, when they were last confirmed, and the task that looks while a page watches."""

    def __init__(self, look: Look, born: int) -> None:
        self.look = look
        self.rows = PartRows(born)
        self.confirmed_ms: float | None = None
        self.failure = ""
        self.note = ""
        self.watchers = 0
        self.wait_ms: float = BEAT_MS  # between two looks
        self.due_ms = 0.0
        self.task: asyncio.Task[None] | None = None


def _leave(part: _Part) -> None:
    part.watchers -= 1
    if not part.watchers and part.task is not None:
        part.task.cancel()
        part.task = None


class Hub:
    """The parts of one user."""

    def __init__(self, looks: Looks, clock: Clock, name: str) -> None:
        self.name = name
        self._looks = looks
        self._clock = clock
        self._parts: dict[str, _Part] = {}
        self._revision = 0
        self._changed = asyncio.Event()
        self.watchers = 0

    @contextmanager
    def watched(self, names: Mapping[str, int]) -> Iterator[None]:
        """Looks at these parts while open. Raises RestError for a part that there is not, or for one too many."""
        watched: list[_Part] = []
        self.watchers += 1
        try:
            for name in names:
                watched.append(self._watch(name))
            yield
        finally:
            self.watchers -= 1
            for part in watched:
                _leave(part)

    def _make_room(self) -> None:
        if len(self._parts) < PARTS_MAX:
            return
        idle = next((name for name, part in self._parts.items() if not part.watchers), None)
        if idle is None:
            raise plain(HTTPStatus.SERVICE_UNAVAILABLE, f"Open pages watch {PARTS_MAX} different things already.")
        del self._parts[idle]

    def _watch(self, name: str) -> _Part:
        part = self._parts.get(name)
        if part is None:
            look = self._looks(name)
            self._make_room()
            part = self._parts[name] = _Part(look, self._revision)
        part.watchers += 1
        if part.task is None:
            part.task = asyncio.create_task(self._keep(part), name=f"console {name}")
        return part

    async def _keep(self, part: _Part) -> None:
        while True:
            await self._clock.sleep(max(0.0, part.due_ms - self._clock.monotonic_ms()))
            said: tuple[bool, str, str] | None = part.confirmed_ms is None, part.failure, part.note
            try:
                found = await part.look()
                if part.rows.replace(found.rows, self._revision + 1):
                    self._revision += 1
                    said = None
            except Exception as error:  # noqa: BLE001 - a task that ended would leave its rows as they are, unseen
                part.failure, part.wait_ms = _failure_of(error, part.failure), BEAT_MS
            else:
                part.failure, part.note, part.wait_ms = "", found.note, found.wait_ms
                part.confirmed_ms = self._clock.monotonic_ms()
            part.due_ms = self._clock.monotonic_ms() + part.wait_ms
            if said != (part.confirmed_ms is None, part.failure, part.note):
                changed, self._changed = self._changed, asyncio.Event()
                changed.set()

    async def events(self, wanted: Mapping[str, int]) -> AsyncIterator[bytes]:
        """The events of a page that has these revisions; watched() is open meanwhile."""
        began_ms, seen = self._clock.monotonic_ms(), dict(wanted)
        while True:
            changed = self._changed
            for name, known in list(seen.items()):
                rows = self._parts[name].rows
                change, revision = rows.since(known), rows.revision
                seen[name] = revision
                if change:
                    for event in self._row_events(name, change, revision):
                        yield event
            yield self._beat(seen)
            if self._clock.monotonic_ms() - began_ms > STREAM_MS:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_MS / 1000):
                    await changed.wait()
                    await self._clock.sleep(COALESCED_MS)

    def _row_events(self, name: str, change: RowChange, revision: int) -> Iterator[bytes]:
        """Events of EVENT_ROWS rows at most; only the last one has the revision, so that a cut stream begins again."""
        for first in range(0, max(len(change.rows), 1), EVENT_ROWS):
            last = first + EVENT_ROWS >= len(change.rows)
            rows = change.rows[first : first + EVENT_ROWS]
            data = {"hub": self.name, "part": name, "reset": change.reset and not first, "rows": rows}
            yield _event("rows", {**data, "gone": change.gone if last else [], "revision": revision if last else None})

    def _beat(self, names: Mapping[str, int]) -> bytes:
        now_ms = self._clock.monotonic_ms()
        ages = {}
        for name in names:
            part = self._parts[name]
            age_ms = None if part.confirmed_ms is None else round(now_ms - part.confirmed_ms)
            ages[name] = {"age_ms": age_ms, "wait_ms": part.wait_ms, "failure": part.failure, "note": part.note}
        return _event("beat", {"hub": self.name, "parts": ages})


def _failure_of(error: Exception, before: str) -> str:
    """What a page shows. A bug is logged when it is new, not at every look."""
    try:
        return as_rest_error(_known(error)).message
    except Exception as bug:  # noqa: BLE001 - an error that has no translation is raised again
        failure = f"This gateway failed to look ({type(bug).__name__}); its log says where."
        if failure != before:
            _LOG.error("console: a look failed", exc_info=bug)
        return failure


def _known(error: Exception) -> Exception:
    """An error of a socket is a connection that was lost."""
    if isinstance(error, OSError) and not isinstance(error, TimeoutError | ConnectionError):
        return ConnectionError(str(error))
    return error


def _event(kind: str, data: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


class Viewer(NamedTuple):
    """Whose rights the rows need."""

    user: object = None
    address: str = ""


class Hubs:
    """The hub of each user and address that has a page open, or had one until a moment ago."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._hubs: dict[Viewer, Hub] = {}
        self._leaving: dict[Viewer, Cancellable] = {}

    @contextmanager
    def of(self, viewer: Viewer, looks: Callable[[], Looks]) -> Iterator[Hub]:
        """The viewer's hub. Raises RestError where too many users, or addresses of this one, have a page open."""
        hub = self._hubs.get(viewer)
        if hub is None:
            self._make_room(viewer.user)
            hub = self._hubs[viewer] = Hub(looks(), self._clock, f"{self._random.getrandbits(64):016x}")
        if (leaving := self._leaving.pop(viewer, None)) is not None:
            leaving.cancel()
        try:
            yield hub
        finally:
            if not hub.watchers and viewer not in self._leaving:
                self._leaving[viewer] = self._clock.call_later(KEPT_MS, lambda: self._drop(viewer))

    def _make_room(self, user: object) -> None:
        """Drops a hub that no page watches where there would be too many. One user never takes another's place."""
        own = [viewer for viewer in self._hubs if viewer.user == user]
        if own:
            if len(own) < HUBS_OF_ONE_MAX:
                return
            idle = [viewer for viewer in own if not self._hubs[viewer].watchers][:1]
            refusal = f"This user has the console open at {HUBS_OF_ONE_MAX} addresses already."
        else:
            users = {viewer.user for viewer in self._hubs}
            if len(users) < USERS_MAX:
                return
            watching = {viewer.user for viewer, hub in self._hubs.items() if hub.watchers}
            left = next((viewer.user for viewer in self._hubs if viewer.user not in watching), None)
            idle = [viewer for viewer in self._hubs if viewer.user == left]
            refusal = f"{USERS_MAX} users have the console open already."
        if not idle:
            raise plain(HTTPStatus.SERVICE_UNAVAILABLE, refusal)
        for viewer in idle:
            self._drop(viewer)

    def _drop(self, viewer: Viewer) -> None:
        if (leaving := self._leaving.pop(viewer, None)) is not None:
            leaving.cancel()
        hub = self._hubs.get(viewer)
        if hub is not None and not hub.watchers:
            del self._hubs[viewer]
