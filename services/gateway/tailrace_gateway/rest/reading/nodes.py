"""The reader's way to the cluster: Metadata is answered from the image, everything else by the brokers."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.address import Address
from tailrace.net.client import Disconnected
from tailrace.wire.messages import ApiMessage, FetchRequest, MetadataRequest, MetadataResponse
from tailrace_gateway.rest.backend import AdminBackend, TopicConnections

_TIMEOUT_MS: Final = 10_000


class ImageNodes:
    """An AskNode whose addresses are node ids. Raises ApiError without READ on the topic, also before any request."""

    def __init__(self, backend: AdminBackend, connections: TopicConnections, topic_id: UUID) -> None:
        """topic_id: one of the same name that is made later is another topic."""
        self._backend = backend
        self._connections = connections
        self._topic_id = topic_id

    async def __call__(self, message: ApiMessage, version: int, at: Address | None = None) -> object:
        if at is None:
            assert isinstance(message, MetadataRequest)
            return self._metadata()
        try:
            return await self._ask(at.port, message, version)
        except ApiError as refused:
            if refused.code != ErrorCode.BROKER_NOT_AVAILABLE:
                raise
            raise Disconnected(refused.message) from None  # the reader's patience: another broker leads soon

    async def _ask(self, node_id: int, message: ApiMessage, version: int) -> object:
        waits_ms = message.max_wait_ms if isinstance(message, FetchRequest) else 0
        return await self._connections.ask(node_id, message, version, _TIMEOUT_MS + waits_ms)

    def _metadata(self) -> MetadataResponse:
        topic = self._backend.image().topic_by_id(self._topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        row = MetadataResponse.MetadataResponseTopic
        leaders = [self._backend.leader(topic.name, index) for index in range(len(topic.partitions))]
        parts = [
            row.MetadataResponsePartition(
                error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader < 0 else ErrorCode.NONE,
                partition_index=index,
                leader_id=leader,
            )
            for index, leader in enumerate(leaders)
        ]
        broker = MetadataResponse.MetadataResponseBroker
        nodes = [broker(node_id=node, host="", port=node) for node in sorted(set(leaders)) if node >= 0]
        return MetadataResponse(brokers=nodes, topics=[row(error_code=0, name=topic.name, partitions=parts)])
