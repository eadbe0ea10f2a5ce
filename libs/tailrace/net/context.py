"""The circumstances of one request: what a handler knows besides the request itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tailrace.net.session import ClientSession


class Connected(Protocol):
    """What a handler may ask of the connection it serves."""

    session: ClientSession

    def close(self) -> None: ...

    def give_way(self, why: str) -> None:
        """Others wait for memory that this client keeps: it must go."""


@dataclass(slots=True)
class Context:
    """One request's circumstances."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    connection: Connected
    internal: bool = False
