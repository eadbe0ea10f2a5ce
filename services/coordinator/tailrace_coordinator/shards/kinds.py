"""Every kind of shard, by its topic. A new kind is a row here and its machine; nothing else in this room names it."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from tailrace.coordination import group_records
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace_coordinator.groups.config import group_config
from tailrace_coordinator.groups.machine import GroupMachine
from tailrace_coordinator.groups.reports import GROUP_REPORTS, group_gauges
from tailrace_coordinator.shards.kind import ShardKind

KINDS: dict[str, ShardKind[Any]] = {
    GROUP_METADATA_TOPIC: ShardKind(
        holds="groups",
        machine=lambda config: GroupMachine(group_config(config)),
        decode=group_records.decode,
        encode=group_records.encode,
        request_id=attrgetter("group_id"),
        gauges=group_gauges,
        reports=GROUP_REPORTS,
    ),
}
