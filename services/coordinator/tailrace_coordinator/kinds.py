"""Every kind of shard, by its topic. A new kind is a row here and its machine; nothing in `shards/` names it."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from tailrace.coordination import group_records, transaction_records
from tailrace.errors import ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace_coordinator.groups.config import group_config
from tailrace_coordinator.groups.machine import GroupMachine
from tailrace_coordinator.groups.reports import GROUP_REPORTS, group_gauges
from tailrace_coordinator.shards.kind import ShardKind
from tailrace_coordinator.transactions.config import transaction_config
from tailrace_coordinator.transactions.machine import TransactionMachine
from tailrace_coordinator.transactions.reports import TRANSACTION_REPORTS, transaction_gauges

KINDS: dict[str, ShardKind[Any]] = {
    GROUP_METADATA_TOPIC: ShardKind(
        holds="groups",
        machine=lambda config: GroupMachine(group_config(config)),
        decode=group_records.decode,
        encode=group_records.encode,
        request_id=attrgetter("group_id"),
        invalid_id=ErrorCode.INVALID_GROUP_ID,
        gauges=group_gauges,
        reports=GROUP_REPORTS,
    ),
    TRANSACTION_STATE_TOPIC: ShardKind(
        holds="transactional_ids",
        machine=lambda config: TransactionMachine(transaction_config(config)),
        decode=transaction_records.decode,
        encode=transaction_records.encode,
        request_id=str,
        invalid_id=ErrorCode.INVALID_REQUEST,
        gauges=transaction_gauges,
        reports=TRANSACTION_REPORTS,
    ),
}
