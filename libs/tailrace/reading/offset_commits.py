"""Commits of offsets by a client that is no member of the group, as administrators make them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tailrace.kafka.ids import TopicPartition
from tailrace.metadata.moves import portions
from tailrace.wire.messages import OffsetCommitRequest

OFFSET_COMMIT_BY_NAME: Final = 8


def commit_requests(group_id: str, offsets: Mapping[TopicPartition, int]) -> Iterator[OffsetCommitRequest]:
    """The requests for all offsets; a group with members refuses them with UNKNOWN_MEMBER_ID."""
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    row = topic.OffsetCommitRequestPartition
    for portion in portions(offsets):
        topics = [
            topic(
                name=name,
                partitions=[
                    row(partition_index=index, committed_offset=offset, committed_metadata="") for index, offset in rows
                ],
            )
            for name, rows in portion
        ]
        yield OffsetCommitRequest(group_id=group_id, generation_id_or_member_epoch=-1, member_id="", topics=topics)
