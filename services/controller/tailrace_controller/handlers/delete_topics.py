"""DeleteTopics v1-6. v5: error messages, and topics above the quota are refused (KIP-599), before only throttled.
v6: by topic id (KIP-516). Internal topics may be deleted, as in Kafka.
"""

from tailrace.net.context import Context
from tailrace.wire.messages import DeleteTopicsRequest, DeleteTopicsResponse
from tailrace_controller.decide import delete_topics
from tailrace_controller.role import ControllerRole


async def handle(request: DeleteTopicsRequest, context: Context, role: ControllerRole) -> DeleteTopicsResponse:
    version, config = context.api_version, role.controller.config
    quota = role.mutations.quota_of(context, strict_since=5)
    answer = await role.controller.run_long(lambda image: delete_topics.delete(image, request, version, config, quota))
    answer.throttle_time_ms = role.mutations.throttled(quota)
    return answer
