"""ConsumerGroupHeartbeat v0-1 (KIP-848): how members join, stay, leave and learn what they own.

v1 subscribed_topic_regex, and member ids that members make themselves (KIP-1082). UNSUPPORTED_VERSION where the feature
group.version is 0, or group.coordinator.rebalance.protocols has no consumer protocol.
"""

from __future__ import annotations

from functools import partial

from tailrace.access.resources import AclOperation, ResourceType
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.features import GROUP_VERSION
from tailrace.net.context import Context
from tailrace.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.groups.consumer.heartbeat import Heartbeat
from tailrace_coordinator.topic_regex_resolver import compiled


async def handle(
    request: ConsumerGroupHeartbeatRequest, context: Context, coordinator: Coordinator
) -> ConsumerGroupHeartbeatResponse:
    """Answers the member's epoch, and its partitions where they changed."""
    if not coordinator.image.features.get(GROUP_VERSION) or not coordinator.serves_consumer_protocol:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "The consumer group protocol is not enabled.")
    if request.subscribed_topic_regex:
        compiled(request.subscribed_topic_regex)
    session = context.connection.session
    beat = Heartbeat(
        request,
        context.api_version,
        context.client_id or "",
        f"/{session.identity.client_host}",  # as java.net.InetAddress prints it
        request.member_id or coordinator.new_member_uuid(),
        partial(session.authorized, AclOperation.DESCRIBE, ResourceType.TOPIC) if session.restricted else None,
    )
    response: ConsumerGroupHeartbeatResponse = await coordinator.groups.ask(
        request, lambda groups, now_ms, token: groups.consumer_heartbeat(now_ms, token, beat)
    )
    return response
