"""What the controller shows in its SQL views of things that only a service knows (groups, use of quotas): rows of JSON,
in requests of their own (ReportGroups).

Never with a heartbeat, whose size must not depend on what clients commit. Rows that changed are sent, and once a minute
all of them, because the controller may be another one by then. Bounded, because the views are for people: of more than
MAX_ROWS rows or MAX_REPORT_BYTES the first are sent, some hundred in a request, and the next request goes when the
controller has stored the last one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.errors import ApiError, ErrorCode
from tailrace.net.client import Disconnected
from tailrace.net.turns import turns
from tailrace.wire.codec import Malformed
from tailrace.wire.messages import ReportGroupsRequest, ReportGroupsResponse

MAX_ROWS = 20_000
MAX_CHANGES = 5_000  # rows of one kind in one report that does not hold all of them
FEW_ROWS = 1_000
INTERVAL_MS = 60_000
SOON_MS = 5_000  # while there is little to say it is said sooner
MOVED_MS = 1_000
MAX_REPORT_BYTES = 4 * 1024 * 1024  # of each kind
PART_BYTES = 16 * 1024
_FAILURES = (ApiError, Disconnected, TimeoutError, Malformed)
Send = Callable[[ReportGroupsRequest], Awaitable[ReportGroupsResponse]]
Row = dict[str, object]
_Texts = dict[tuple[object, ...], str]


async def _nothing() -> None:
    return


async def _none_moved() -> Sequence[Any]:
    return ()


class Source(NamedTuple):
    """Rows of one kind: the things there are now, and how one is shown. `key` names the columns that tell rows apart.

    `refresh` brings the things up to date; `moved` returns those that changed since, and is cheap where none did.
    """

    kind: str
    things: Callable[[], Sequence[Any]]
    row: Callable[[Any], Row]
    key: Sequence[str]
    refresh: Callable[[], Awaitable[None]] = _nothing
    moved: Callable[[], Awaitable[Sequence[Any]]] = _none_moved


class Reports:
    """`send` gives a request to the active controller; `life` is (service id, service epoch)."""

    def __init__(
        self,
        clock: Clock,
        sources: Sequence[Source],
        send: Send,
        life: Callable[[], tuple[int, int]],
        log: FilteringBoundLogger,
    ) -> None:
        self._clock = clock
        self._sources = sources
        self._send = send
        self._life = life
        self._log = log
        self._reported: dict[str, _Texts] = {}
        self._all_at_ms = 0.0

    async def run(self) -> None:
        """Reports until cancelled: all that there is in intervals, and each second what has moved."""
        wait_ms = MOVED_MS if any(source.moved is not _none_moved for source in self._sources) else SOON_MS
        due_ms = 0.0
        while True:
            try:
                now_ms = self._clock.monotonic_ms()
                if now_ms < due_ms:
                    await self.report_moved()
                else:
                    due_ms = now_ms + INTERVAL_MS
                    if await self.report() < FEW_ROWS:
                        due_ms = now_ms + SOON_MS
            except Exception:  # noqa: BLE001 - a bug in what the views show is not worth a service
                self._log.exception("report not sent")
            await self._clock.sleep(wait_ms)

    async def report(self) -> int:
        """Sends the rows that have changed, and once a minute all of them; returns how many rows there are."""
        for source in self._sources:
            await source.refresh()
        there = [(source, source.things()) for source in self._sources]
        rows = sum(min(len(things), MAX_ROWS) for _, things in there)
        kinds = [(source.kind, await _texts(source, things)) for source, things in there]
        now_ms = self._clock.monotonic_ms()
        is_due = now_ms >= self._all_at_ms
        if not self._is_registered():
            return rows
        if not await self._try(self._send_kinds(kinds, whole=is_due)):
            return MAX_ROWS  # whatever it was has time to pass
        if is_due:
            self._all_at_ms = now_ms + INTERVAL_MS
        return rows

    async def report_moved(self) -> None:
        """Sends what has moved since the last report."""
        for source in self._sources if self._is_registered() else ():
            if things := await source.moved():
                await self._try(self._send_changes(source.kind, await _texts(source, things)))

    def _is_registered(self) -> bool:
        return self._life()[1] >= 0

    async def _try(self, sending: Awaitable[None]) -> bool:
        """After a failure it is unknown what the controller has: the next report has all of it."""
        try:
            await sending
        except _FAILURES as failed:
            self._log.warning("report not sent", why=str(failed) or "timed out")
            self._all_at_ms = 0.0
            return False
        return True

    async def _send_kinds(self, kinds: Sequence[tuple[str, _Texts]], *, whole: bool) -> None:
        for kind, texts in kinds:
            if whole or self._reported.get(kind, {}).keys() - texts.keys():  # rows are only deleted with all others
                payloads = parts(texts.values())
                for number, payload in enumerate(payloads):
                    await self._send_part(kind, payload, first=number == 0, last=number == len(payloads) - 1)
                self._reported[kind] = texts
            else:
                await self._send_changes(kind, texts)

    async def _send_changes(self, kind: str, texts: _Texts) -> None:
        """Some of the rows stay for the next time where very many have changed."""
        reported = self._reported.setdefault(kind, {})
        changed = ((key, text) for key, text in texts.items() if reported.get(key) != text)
        some = dict(itertools.islice(changed, MAX_CHANGES))
        for number, payload in enumerate(parts(some.values()) if some else ()):
            await self._send_part(kind, payload, first=number == 0, last=False)
        reported.update(some)

    async def _send_part(self, kind: str, payload: bytes, *, first: bool, last: bool) -> None:
        service_id, service_epoch = self._life()
        answer = await self._send(
            ReportGroupsRequest(
                service_id=service_id, service_epoch=service_epoch, kind=kind, first=first, last=last, payload=payload
            )
        )
        if answer.error_code:
            raise ApiError(ErrorCode(answer.error_code))


def parts(texts: Iterable[str]) -> list[bytes]:
    """The rows as JSON lists of about PART_BYTES each, at least one."""
    found: list[bytes] = []
    part: list[str] = []
    part_bytes = 0
    for text in texts:
        if part and part_bytes + len(text) > PART_BYTES:
            found.append(_listed(part))
            part, part_bytes = [], 0
        part.append(text)
        part_bytes += len(text)
    return [*found, _listed(part)]


async def _texts(source: Source, things: Iterable[Any]) -> _Texts:
    """The rows as JSON by their keys, as many as the bounds leave room for."""
    texts: _Texts = {}
    left = MAX_REPORT_BYTES
    async for row in turns(map(source.row, itertools.islice(things, MAX_ROWS))):
        text = json.dumps(row)
        left -= len(text)
        if left < 0:
            break
        texts[tuple(row[name] for name in source.key)] = text
    return texts


def _listed(texts: list[str]) -> bytes:
    return f"[{', '.join(texts)}]".encode()
