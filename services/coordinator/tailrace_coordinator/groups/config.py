"""What the group machine needs of the configuration, by Kafka's names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tailrace.config import Config
from tailrace_coordinator.groups.assignors.assignors import ASSIGNORS
from tailrace_coordinator.shards.kind import max_batch_bytes

_KAFKA_CLASSES: Final = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Kafka's group.* and offset* keys with Kafka's defaults, and our own bounds below them.

    A group's record must fit one batch of `__consumer_offsets`, so max_record_bytes also bounds what a member may say
    of itself under one protocol.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    group_initial_rebalance_delay_ms: int = 3_000
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2_147_483_647
    upgrades_groups: bool = True  # group.consumer.migration.policy
    downgrades_groups: bool = True
    group_consumer_assignors: tuple[str, ...] = tuple(ASSIGNORS)
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_assignor_offload_enable: bool = True
    group_consumer_regex_refresh_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    offsets_retention_check_interval_ms: int = 600_000
    new_member_join_timeout_ms: int = 5 * 60 * 1000  # as in Kafka, where no key sets it either

    max_record_bytes: int = 1_000_000
    max_pending_members: int = 10_000  # of one group
    max_pending_bytes: int = 4 * 1024 * 1024  # of all groups of a shard, of which a coordinator has 50
    max_protocols: int = 1_000  # of one JoinGroup
    max_members: int = 10_000  # of one group, whatever group.max.size says: its record has no room for so many
    # Members and partitions: an assignment of more takes over 20 ms, and is computed in a thread where it may be.
    max_rows_assigned_at_once: int = 5_000
    max_expressions: int = 100  # different ones of one consumer group
    max_group_metadata_bytes: int = 16 * 1024 * 1024

    @property
    def migrates_groups(self) -> bool:
        """Whether a consumer group may have classic members."""
        return self.upgrades_groups or self.downgrades_groups


def _assignors(names: Iterable[str]) -> tuple[str, ...]:
    """Those that are built in, by name or by the name of Kafka's class; all of them where none is."""
    found = [_KAFKA_CLASSES.get(name, name) for name in names]
    return tuple(name for name in dict.fromkeys(found) if name in ASSIGNORS) or tuple(ASSIGNORS)


def group_config(config: Config) -> GroupConfig:
    """Returns what the group machine needs of the role's configuration."""
    policy = config.group_consumer_migration_policy.lower()
    return GroupConfig(
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_max_size=config.group_max_size,
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        group_consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        group_consumer_max_size=config.group_consumer_max_size,
        upgrades_groups=policy in ("bidirectional", "upgrade"),
        downgrades_groups=policy in ("bidirectional", "downgrade"),
        group_consumer_assignors=_assignors(config.group_consumer_assignors),
        group_consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        group_consumer_assignor_offload_enable=config.group_consumer_assignor_offload_enable,
        group_consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        max_record_bytes=max_batch_bytes(config),
    )
