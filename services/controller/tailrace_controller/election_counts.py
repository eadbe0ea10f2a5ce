"""How often the controller elected leaders, and how often uncleanly: counted as it decides. Pure."""

from collections.abc import Iterable

from tailrace.metadata.records import NO_LEADER, MetadataRecord, PartitionChangeRecord
from tailrace_controller.decide.partition_change import RECOVERING


class ElectionCounts:
    """Plain numbers; they begin at zero with the process."""

    def __init__(self) -> None:
        self.leader_elections = 0
        self.unclean_leader_elections = 0

    def add(self, records: Iterable[MetadataRecord]) -> None:
        """ElectionCounts one decision."""
        for record in records:
            if isinstance(record, PartitionChangeRecord) and record.leader > NO_LEADER:
                self.leader_elections += 1
                self.unclean_leader_elections += record.leader_recovery_state == RECOVERING
