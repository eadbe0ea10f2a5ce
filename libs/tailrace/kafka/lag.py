"""The lag of a consumer group on a partition, in records and in seconds, for every place that shows it.

In records it is the distance from the committed offset to the end of the log, as in Kafka: markers of transactions and
offsets that compaction took away count. In seconds it is the age of the next record to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tailrace.kafka.described_groups import DescribedGroup, DescribedGroupMember
from tailrace.kafka.ids import TopicPartition

NOTHING_TO_READ: Final = -1  # in place of the next record's timestamp: no record lies before the end


def lag(committed_offset: int, log_end_offset: int) -> int:
    """Records between the committed offset and the end of the log; none for a commit beyond the end."""
    return max(0, log_end_offset - committed_offset)


def lag_seconds(lag: int | None, next_timestamp_ms: int | None, now_ms: float) -> float | None:
    """The age of the next record to read; 0 where there is none, None where its timestamp is unknown."""
    if lag == 0 or next_timestamp_ms == NOTHING_TO_READ:
        return 0.0
    return None if lag is None or next_timestamp_ms is None else max(0.0, (now_ms - next_timestamp_ms) / 1000)


def lag_trend(earlier: int | None, later: int | None, elapsed_ms: float) -> float | None:
    """Records a second by which a lag grew between two looks; below zero the group catches up."""
    if earlier is None or later is None or elapsed_ms <= 0:
        return None
    return round((later - earlier) * 1000 / elapsed_ms, 1)


class PartitionLag(NamedTuple):
    """How far a group is behind on one partition; None where there is no commit, or no leader answers.

    The member is the one that has the partition now.
    """

    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    next_timestamp_ms: int | None
    member: DescribedGroupMember | None

    @property
    def lag(self) -> int | None:
        if self.current_offset is None or self.log_end_offset is None:
            return None
        return lag(self.current_offset, self.log_end_offset)

    def seconds(self, now_ms: float) -> float | None:
        """The age of the next record to read."""
        return lag_seconds(self.lag, self.next_timestamp_ms, now_ms)


def partition_lags(
    group: DescribedGroup,
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    next_timestamps: Mapping[TopicPartition, int],
    only: TopicPartition | None = None,
) -> list[PartitionLag]:
    """The partitions that a group has committed offsets for, or that a member has, by topic and partition."""
    owners = {key: member for member in group.members for key in member.partitions}
    keys: Iterable[TopicPartition] = sorted({*committed, *owners}) if only is None else [only]
    return [
        PartitionLag(*key, committed.get(key), ends.get(key), next_timestamps.get(key), owners.get(key)) for key in keys
    ]


LAG_IN_SQL: Final = (
    "CASE WHEN log_end_offset < committed_offset THEN 0 ELSE log_end_offset - committed_offset END"  # NULL stays NULL
)
"""The same as lag over the columns of that name."""


def lag_seconds_in_sql(now_ms: str) -> str:
    """The same as lag_seconds; now_ms is the database's expression of the time."""
    return (
        f"CASE WHEN log_end_offset <= committed_offset OR next_timestamp_ms = {NOTHING_TO_READ} THEN 0.0"
        f" WHEN next_timestamp_ms > {now_ms} THEN 0.0 ELSE ({now_ms} - next_timestamp_ms) / 1000.0 END"
    )
