"""The circumstances of one request: what a handler knows besides the request itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tailrace.net.session import ClientSession


class Connected(Protocol):
    """What a handler may ask of the connection it serves."""

    session: ClientSession

    def close(self) -> None: ...

    def give_way(self, why: str) -> None:
        """Others wait for memory that this client keeps: it must go."""


class HotConnection(Connected, Protocol):
    """The connection, as a hot handler sees it: an answer that comes later leaves with `flush`."""

    state: dict[str, object]
    refused_batches: Any  # what Produce knows of batches it refused here, while it matters
    named: bytes | None
    sends_files: bool

    def mute(self, throttle_time_ms: int) -> None:
        """Handles no further request for so long."""

    def flush(self) -> None:
        """Promised answers have come."""

    def keep(self, body: memoryview) -> memoryview:
        """The body of the request at hand, for as long as its handler wants."""

    async def room_for_rows(self, size_bytes: int) -> None:
        """Returns when there is memory for the rows of a large request."""


@dataclass(slots=True)
class Context:
    """One request's circumstances."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    connection: Connected
    internal: bool = False
