"""The features of a cluster, and the levels that this version of Tailrace knows (KIP-584).

A level is finalized for a whole cluster by a record of the metadata log; a feature without one is at level 0.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

METADATA_VERSION: Final = "metadata.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"
GROUP_VERSION: Final = "group.version"
SECURITY_VERSION: Final = "security.version"
TRANSACTION_VERSION: Final = "transaction.version"


class Levels(NamedTuple):
    """A range of levels, both ends among them."""

    lowest: int
    highest: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.lowest <= level <= self.highest


# metadata.version: from 3.3-IV3, Kafka 4's lowest, to 4.0-IV3, whose brokers use nothing that the image does not hold.
# Eligible leader replicas (KIP-966) are always kept. Transactions: 0 and 1 as before KIP-890, 2 with its protocol.
# Groups: 1 with the consumer protocol (KIP-848). Security, a feature of ours: 1 with SCRAM credentials (KIP-554) and
# ACLs.
SUPPORTED: Final[Mapping[str, Levels]] = {
    ELIGIBLE_LEADER_REPLICAS_VERSION: Levels(1, 1),
    GROUP_VERSION: Levels(0, 1),
    METADATA_VERSION: Levels(7, 25),
    SECURITY_VERSION: Levels(0, 1),
    TRANSACTION_VERSION: Levels(0, 2),
}
# What a new cluster begins with.
INITIAL: Final[Mapping[str, int]] = {name: levels.highest for name, levels in SUPPORTED.items()}
# What brokers know that register without naming any feature, as those of Tailrace did before it had transactions.
UNNAMED: Final[Mapping[str, Levels]] = {
    ELIGIBLE_LEADER_REPLICAS_VERSION: Levels(1, 1),
    METADATA_VERSION: Levels(7, 25),
}


def beyond(features: Mapping[str, int]) -> str | None:
    """Why this version of Tailrace cannot work in a cluster with these finalized levels; None if it can."""
    for name, level in features.items():
        levels = SUPPORTED.get(name)
        if levels is None or level > levels.highest:
            knows = "does not know it" if levels is None else f"knows levels {levels.lowest} to {levels.highest}"
            return f"the cluster's feature {name} is at level {level}, and this version of Tailrace {knows}"
    return None
