"""A cluster of messages for readers of a topic: two nodes, and a clock whose sleepers let the time pass."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tailrace.clock import ManualClock
from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.reading.reader import Gap, TopicReader
from tailrace.records.record import Record, build
from tailrace.wire import messages as m

PATIENCE_MS = 1000


class Clock(ManualClock):
    """A clock whose sleepers let the time pass."""

    async def sleep(self, delay_ms: float) -> None:
        self.advance(delay_ms)


class Cluster:
    """Two nodes and a topic; the records of a partition are one batch each, of the values "0", "1" ... by offset."""

    def __init__(self, *ends: int, first: int = 0) -> None:
        self.ends = list(ends)
        self.first = first
        self.leaders = [index % 2 for index in range(len(ends))]
        self.fails: list[Exception] = []  # of the next Fetch requests
        self.codes: list[int] = []  # of the next rows of Fetch
        self.fetched: list[int] = []  # the port of each Fetch
        self.topic_ids: list[UUID] = []  # of each Fetch
        self.rows: list[int] = []  # of each request about partitions
        self.unknown = 0
        self.metadata = 0  # how often it was asked for
        self.metadata_fails: list[Exception] = []  # of the next of these

    def value(self, partition: int, offset: int) -> bytes | None:
        """Of a record."""
        return b"%d" % offset

    async def __call__(self, message: Any, version: int, at: Address | None = None) -> Any:
        if isinstance(message, m.MetadataRequest):
            self.metadata += 1
            if self.metadata_fails:
                raise self.metadata_fails.pop(0)
            return self._metadata()
        assert at is not None
        self.rows.append(len(message.topics[0].partitions))
        return self._list_offsets(message) if isinstance(message, m.ListOffsetsRequest) else self._fetch(message, at)

    def _metadata(self) -> Any:
        answer, topic = m.MetadataResponse, m.MetadataResponse.MetadataResponseTopic
        part = topic.MetadataResponsePartition
        parts = [
            part(partition_index=index, leader_id=leader, error_code=5 if leader < 0 else 0, replica_nodes=[0, 1])
            for index, leader in enumerate(self.leaders)
        ]
        brokers = [answer.MetadataResponseBroker(node_id=node, host="h", port=node, rack=None) for node in (0, 1)]
        return answer(brokers=brokers, topics=[topic(name="t", error_code=self.unknown, partitions=parts)])

    def _list_offsets(self, message: Any) -> Any:
        topic = m.ListOffsetsResponse.ListOffsetsTopicResponse
        row = topic.ListOffsetsPartitionResponse
        rows = [
            row(
                partition_index=part.partition_index,
                offset={-2: self.first, -1: self.ends[part.partition_index]}.get(part.timestamp, -1),
            )
            for part in message.topics[0].partitions
        ]
        return m.ListOffsetsResponse(topics=[topic(name="t", partitions=rows)])

    def _fetch(self, message: Any, at: Address) -> Any:
        self.fetched.append(at.port)
        self.topic_ids.append(message.topics[0].topic_id)
        if self.fails:
            raise self.fails.pop(0)
        topic = m.FetchResponse.FetchableTopicResponse
        rows = [self._row(part) for part in message.topics[0].partitions]
        return m.FetchResponse(error_code=0, responses=[topic(topic="t", partitions=rows)])

    def _row(self, part: Any) -> Any:
        code = self.codes.pop(0) if self.codes else 0
        records, offset = b"", part.fetch_offset
        if not code and not self.first <= offset <= self.ends[part.partition]:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        if not code and offset < self.ends[part.partition]:
            records = bytes(build([Record(timestamp=1, value=self.value(part.partition, offset))], base_offset=offset))
        row = m.FetchResponse.FetchableTopicResponse.PartitionData
        return row(partition_index=part.partition, error_code=code, records=records, aborted_transactions=None)


def reader(cluster: Cluster, gaps: list[Gap] | None = None) -> TopicReader:
    return TopicReader(cluster, Clock(), "t", patience_ms=PATIENCE_MS, on_gap=(gaps if gaps is not None else []).append)
