"""How often the controller elected leaders, and how often uncleanly: counted as it decides. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tailrace.metadata.records import NO_LEADER, MetadataRecord, PartitionChangeRecord
from tailrace_controller.decide.partition_change import RECOVERING


class ElectionCounts(NamedTuple):
    """Of one decision, or of all of a process."""

    leader_elections: int = 0
    unclean_leader_elections: int = 0

    def and_also(self, more: ElectionCounts) -> ElectionCounts:
        """Returns the sums."""
        return ElectionCounts(
            self.leader_elections + more.leader_elections, self.unclean_leader_elections + more.unclean_leader_elections
        )


def counted(records: Iterable[MetadataRecord]) -> ElectionCounts:
    """Returns the elections of one decision."""
    elections = unclean = 0
    for record in records:
        if isinstance(record, PartitionChangeRecord) and record.leader > NO_LEADER:
            elections += 1
            unclean += record.leader_recovery_state == RECOVERING
    return ElectionCounts(elections, unclean)
