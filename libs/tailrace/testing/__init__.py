"""A real cluster for tests: `with Cluster() as cluster`, then `cluster.bootstrap`; fixtures.py has it for pytest."""

from tailrace.testing.cluster import Cluster
from tailrace.testing.events import ClusterDied, Event

__all__ = ["Cluster", "ClusterDied", "Event"]
