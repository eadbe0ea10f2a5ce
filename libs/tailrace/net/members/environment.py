"""What parts of net take of the runtime's Environment, which lies above them."""

from __future__ import annotations

from random import Random
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.net.client import SaslLogin


class ServiceEnvironment(Protocol):
    """The world of one role instance."""

    @property
    def clock(self) -> Clock: ...
    @property
    def random(self) -> Random: ...
    @property
    def log(self) -> FilteringBoundLogger: ...
    @property
    def secret(self) -> SaslLogin | None: ...
