"""One group of a cluster: its members, its committed offsets, and where the logs of its partitions begin and end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from tailrace.cli.daily.nodes import LATEST, Nodes
from tailrace.cli.daily.refusals import RefusedError
from tailrace.errors import ErrorCode
from tailrace.kafka.described_groups import DescribedGroup, is_of_another_kind, of_classic, of_consumer
from tailrace.kafka.lag import PartitionLag, partition_lags
from tailrace.metadata.moves import Partition
from tailrace.net.address import Address
from tailrace.reading.next_records import next_timestamps, unread
from tailrace.reading.offset_commits import OFFSET_COMMIT_BY_NAME, commit_requests
from tailrace.wire import messages as m

_OF_ANOTHER_KIND: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND})


class GroupInCluster:
    """A group by its id. Methods raise RefusedError, and what Nodes.ask raises."""

    def __init__(self, cluster: Nodes, group_id: str) -> None:
        self.group_id = group_id
        self._cluster = cluster
        self._at: Address = cluster.coordinator(group_id)

    def found(self) -> DescribedGroup | None:
        """The group; None if there is no such group (DescribeGroups v6 says so, KIP-1043)."""
        asked = m.DescribeGroupsRequest(groups=[self.group_id])
        (row,) = self._cluster.ask(asked, 6, self._at, handled=_OF_ANOTHER_KIND).groups
        if row.group_state != "Dead":
            return of_classic(row)
        if not is_of_another_kind(row.error_message):
            return None
        request = m.ConsumerGroupDescribeRequest(group_ids=[self.group_id], include_authorized_operations=False)
        (row,) = self._cluster.ask(request, 1, self._at, handled=_OF_ANOTHER_KIND).groups
        return None if row.error_code else of_consumer(row)

    def described(self) -> DescribedGroup:
        """As found; a group that does not exist is refused."""
        if (group := self.found()) is None:
            raise RefusedError(f"{self.group_id}: no such group; `tailrace group list` names the groups")
        return group

    def committed(self) -> dict[Partition, int]:
        """The committed offsets."""
        asked = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=self.group_id, topics=None)
        answer = self._cluster.ask(m.OffsetFetchRequest(groups=[asked], require_stable=False), 8, self._at)
        return {
            (topic.name, part.partition_index): part.committed_offset
            for row in answer.groups
            for topic in row.topics
            for part in topic.partitions
            if part.committed_offset >= 0
        }

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commits as a client that is no member; the coordinator refuses it where there are any."""
        for request in commit_requests(self.group_id, offsets):
            self._cluster.ask(request, OFFSET_COMMIT_BY_NAME, self._at)

    def delete(self) -> None:
        """Deletes the group and its committed offsets."""
        self._cluster.ask(m.DeleteGroupsRequest(groups_names=[self.group_id]), 2, self._at)

    def lags(self, group: DescribedGroup, *, read_committed: bool = False, ages: bool = True) -> list[PartitionLag]:
        """The lag of each partition that has a commit or a member; ages: with the age of the next record to read.

        read_committed: up to the last stable offset, else up to the high watermark.
        """
        committed = self.committed()
        owned = {key for member in group.members for key in member.partitions}
        leaders = leaders_of(self._cluster, committed.keys() | owned)
        ends = self._cluster.offsets(leaders, LATEST, read_committed=read_committed)
        timestamps: Mapping[Partition, int] = {}
        if ages and (rows := unread(leaders, committed, ends)):
            live = self._cluster.addresses()
            found = next_timestamps(
                lambda leader, message, version: self._cluster.exchange(message, version, live[leader]), rows
            )
            timestamps = self._cluster.run(found)
        return partition_lags(group, committed, ends, timestamps)


def leaders_of(cluster: Nodes, partitions: Collection[Partition]) -> dict[Partition, int]:
    """The leader of each partition; nothing of those whose topic is gone."""
    topics = topic_names(cluster)
    names = sorted({name for name, _ in partitions} & topics)
    rows = cluster.partitions(names) if names else {}
    return {key: row.leader_id for key, row in rows.items() if key in partitions}


def topic_names(cluster: Nodes) -> set[str]:
    """The names of all topics."""
    return {topic.name for topic in cluster.ask(m.MetadataRequest(topics=None), 12).topics}
