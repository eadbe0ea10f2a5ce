"""A real cluster for tests: `with Cluster() as cluster`, then `cluster.bootstrap`; fixtures.py has it for pytest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.testing.cluster import Cluster
from tailrace.testing.events import ClusterDied, Event

if TYPE_CHECKING:
    from tailrace.testing.container import TailraceContainer

__all__ = ["Cluster", "ClusterDied", "Event", "TailraceContainer"]


def __getattr__(name: str) -> object:
    """Only who asks for the container needs testcontainers."""
    if name != "TailraceContainer":
        raise AttributeError(name)
    from tailrace.testing.container import TailraceContainer

    return TailraceContainer
