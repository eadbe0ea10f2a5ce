"""The objects of a broker between app.py's functions; every other module gets those that it uses."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace_broker.cold_reads.reads import ColdReads
from tailrace_broker.directories.assignments import Assignments
from tailrace_broker.directories.disk_pressure import DiskPressure
from tailrace_broker.directories.moves import DirMoves
from tailrace_broker.directories.storage import Storage
from tailrace_broker.dynamic_config import DynamicBrokerConfig
from tailrace_broker.fetch.lookups import Lookups
from tailrace_broker.metadata_publisher import BrokerMetadataPublisher
from tailrace_broker.metrics import BrokerMetrics
from tailrace_broker.partitions.topics import Topics
from tailrace_broker.partitions.wakeups import WakeUps
from tailrace_broker.replication.isr import IsrUpdates


@dataclass(frozen=True)
class Broker:
    """What one node keeps; its listener is built on it (app.open_listener)."""

    config: DynamicBrokerConfig
    storage: Storage
    topics: Topics
    wakeups: WakeUps
    publisher: BrokerMetadataPublisher
    isr: IsrUpdates
    dir_moves: DirMoves
    assignments: Assignments
    pressure: DiskPressure
    lookups: Lookups
    cold_reads: ColdReads
    metrics: BrokerMetrics
