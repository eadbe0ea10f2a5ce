"""The question where logs end: what groups' reports, lag and the command line ask of leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tailrace.wire.messages import ListOffsetsRequest

LATEST = -1  # of the timestamps that are none


def latest_offsets_request(topics: Mapping[str, Iterable[int]], timeout_ms: int = 0) -> ListOffsetsRequest:
    """For the high watermarks of partitions, of this leader, by topic."""
    topic = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        timeout_ms=timeout_ms,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.ListOffsetsPartition(partition_index=n, current_leader_epoch=-1, timestamp=LATEST)
                    for n in partitions
                ],
            )
            for name, partitions in topics.items()
        ],
    )
