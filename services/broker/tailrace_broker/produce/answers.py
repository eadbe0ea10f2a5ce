"""The frames of Produce answers, once every append of a request has its outcome."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias
from uuid import UUID

from tailrace.errors import ErrorCode
from tailrace.wire import codec
from tailrace.wire.hot.produce import encode_produce_answer, with_throttle
from tailrace.wire.messages import ProduceResponse
from tailrace_broker.hints import Hints
from tailrace_broker.metrics import BrokerMetrics
from tailrace_broker.produce.refused_batches import MISSING, RETRIED, RefusedBatches
from tailrace_broker.produce.request import TOPIC_IDS_FROM, PartitionAppend, ProduceAnswer, ProducerConnection

_HINTED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_HINTS_FROM: Final = 10  # KIP-951
ProduceTopicResponse: TypeAlias = ProduceResponse.TopicProduceResponse
_Row: TypeAlias = ProduceTopicResponse.PartitionProduceResponse


class ProduceAnswers:
    """The answers of one broker."""

    def __init__(self, hints: Hints, metrics: BrokerMetrics) -> None:
        self._hints = hints
        self._metrics = metrics

    def encode(self, connection: ProducerConnection, answer: ProduceAnswer) -> bytes:
        """The answer's frame."""
        version, correlation_id, topics, throttle, head = answer
        if head is not None:
            append = topics[0][1][0]
            if not append.error_code and append.partition is not None:
                _, base_offset, _, time_ms, _, _ = append.appended
                return head.answer(correlation_id, base_offset, time_ms, append.partition.log.log_start_offset)
        written = []
        for key, appends in topics:
            packed = []
            for append in appends:
                if append.error_code or append.partition is None:
                    return self.encode_refused(connection, answer)
                _, base_offset, _, time_ms, _, _ = append.appended
                packed.append((append.partition_id, 0, base_offset, time_ms, append.partition.log.log_start_offset))
            written.append((key, packed))
        frame = encode_produce_answer(version, correlation_id, written)
        return frame if throttle is None else with_throttle(version, frame, throttle.throttle_time_ms)

    def encode_refused(self, connection: ProducerConnection, answer: ProduceAnswer) -> bytes:
        """With messages and leader hints: rare, so the schema-driven codec writes it."""
        hinted = set[int]()
        topics = [topic for _, topic in self.rows(connection, answer, hinted)]
        response = self.response_of(connection, topics, answer.throttle_time_ms, hinted)
        return codec.encode_response(response, answer.version, answer.correlation_id)

    def rows(
        self, connection: ProducerConnection, answer: ProduceAnswer, hinted: set[int]
    ) -> Iterator[tuple[bytes, ProduceTopicResponse]]:
        """Each topic's key and its rows; the connection remembers what was refused, hinted the leaders they name."""
        version = answer.version
        for key, appends in answer.topics:
            found = []
            for append in appends:
                if append.error_code:
                    self._metrics.failed_produce_requests += 1
                if append.error_code in RETRIED and append.appended.error_message is not MISSING:
                    if connection.refused_batches is None:
                        connection.refused_batches = RefusedBatches()
                    connection.refused_batches.refused((key, append.partition_id))
                row = _row(append)
                if append.error_code in _HINTED and version >= _HINTS_FROM:
                    hint = self._hints.leader(key, append.partition_id)
                    if hint is not None:
                        row.current_leader = _Row.LeaderIdAndEpoch(leader_id=hint[0], leader_epoch=hint[1])
                        hinted.add(hint[0])
                found.append(row)
            named = {"topic_id": UUID(bytes=key)} if version >= TOPIC_IDS_FROM else {"name": key.decode()}
            yield key, ProduceTopicResponse(partition_responses=found, **named)

    def response_of(
        self,
        connection: ProducerConnection,
        topics: list[ProduceTopicResponse],
        throttle_time_ms: int,
        hinted: set[int],
    ) -> ProduceResponse:
        """Of all its topics, with the addresses of the leaders they name."""
        response = ProduceResponse(responses=topics, throttle_time_ms=throttle_time_ms)
        if hinted:
            response.node_endpoints = [
                ProduceResponse.NodeEndpoint(node_id=node, host=host, port=port, rack=None)
                for node, host, port in self._hints.endpoints(hinted, connection.session.identity)
            ]
        return response


def _row(append: PartitionAppend) -> _Row:
    appended = append.appended
    row = _Row(
        index=append.partition_id,
        error_code=int(append.error_code),
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        error_message=appended.error_message,
    )
    row.record_errors = [
        _Row.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=appended.error_message)
        for index in appended.record_errors
    ]
    known = not append.error_code or appended.record_errors
    if known and append.partition is not None and append.partition.opened is not None:
        row.log_start_offset = append.partition.opened.log_start_offset
    else:
        row.log_start_offset = -1
    return row
