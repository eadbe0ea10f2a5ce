"""What the controller shows in its SQL views of things that only a service knows (groups, use of quotas): rows of JSON,
in requests of their own (ReportGroups).

Never with a heartbeat, whose size must not depend on what clients commit. Bounded, because the views are for people: of
more than MAX_ROWS rows or MAX_REPORT_BYTES the first are told, some hundred in a request, and the next request goes
when the controller has stored the last one. A report that fails is given up; the next one is due a minute later.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.errors import ApiError, ErrorCode
from tailrace.net.client import Disconnected
from tailrace.net.turns import turns
from tailrace.wire.codec import Malformed
from tailrace.wire.messages import ReportGroupsRequest

MAX_ROWS = 20_000
FEW_ROWS = 1_000
INTERVAL_MS = 60_000
SOON_MS = 5_000  # while there is little to say it is said sooner
MAX_REPORT_BYTES = 4 * 1024 * 1024  # of each kind
PART_BYTES = 16 * 1024
_FAILURES = (ApiError, Disconnected, TimeoutError, Malformed)
Send = Callable[[ReportGroupsRequest], Awaitable[Any]]


class Source(NamedTuple):
    """Rows of one kind: the things there are now, and how one is shown."""

    kind: str
    things: Callable[[], Sequence[Any]]
    row: Callable[[Any], dict[str, Any]]


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
        self._last: list[tuple[str, list[bytes]]] = []
        self._again_ms = 0.0

    async def run(self) -> None:
        """Reports until cancelled."""
        while True:
            rows = MAX_ROWS
            try:
                rows = await self.report()
            except Exception:  # noqa: BLE001 - a bug in what the views show is not worth a service
                self._log.exception("report not sent")
            await self._clock.sleep(SOON_MS if rows < FEW_ROWS else INTERVAL_MS)

    async def report(self) -> int:
        """Tells what has changed, and once a minute all of it; returns how many rows there are."""
        there = [(source, source.things()) for source in self._sources]
        rows = sum(min(len(things), MAX_ROWS) for _, things in there)
        kinds = [(source.kind, await parts(map(source.row, things))) for source, things in there]
        now_ms = self._clock.monotonic_ms()
        if self._life()[1] >= 0 and (kinds != self._last or now_ms >= self._again_ms):
            try:
                for kind, payloads in kinds:
                    await self._send_rows(kind, payloads)
            except _FAILURES as failed:
                self._log.warning("report not sent", why=str(failed) or "timed out")
                return MAX_ROWS  # whatever it was has time to pass
            self._last = kinds
            self._again_ms = now_ms + INTERVAL_MS  # the same once more: the controller may be another one by then
        return rows

    async def _send_rows(self, kind: str, payloads: list[bytes]) -> None:
        for number, payload in enumerate(payloads):
            service_id, service_epoch = self._life()
            answer = await self._send(
                ReportGroupsRequest(
                    service_id=service_id,
                    service_epoch=service_epoch,
                    kind=kind,
                    first=number == 0,
                    last=number == len(payloads) - 1,
                    payload=payload,
                )
            )
            if answer.error_code:
                raise ApiError(ErrorCode(answer.error_code))


async def parts(rows: Iterable[dict[str, Any]]) -> list[bytes]:
    """The rows as JSON lists of about PART_BYTES each, at least one; the rows that the bounds leave room for."""
    found: list[bytes] = []
    part: list[str] = []
    part_bytes = 0
    async for text in turns(_texts(rows)):
        if part and part_bytes + len(text) > PART_BYTES:
            found.append(_listed(part))
            part, part_bytes = [], 0
        part.append(text)
        part_bytes += len(text)
    return [*found, _listed(part)]


def _texts(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    left = MAX_REPORT_BYTES
    for row in itertools.islice(rows, MAX_ROWS):
        text = json.dumps(row)
        left -= len(text)
        if left < 0:
            return
        yield text


def _listed(texts: list[str]) -> bytes:
    return f"[{', '.join(texts)}]".encode()
