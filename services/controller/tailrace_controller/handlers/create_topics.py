"""CreateTopics v2-7. v4: -1 for broker defaults (KIP-464), which Kafka 4.3 also takes before. v5: effective configs in
the answer (KIP-525). v6: topics above the quota are refused (KIP-599), in older versions only throttled. v7: topic id.
The offsets topic gets its own settings whoever asks for it.
"""

from tailrace.net.context import Context
from tailrace.wire.messages import CreateTopicsRequest, CreateTopicsResponse
from tailrace_controller.decide import create_topics
from tailrace_controller.role import ControllerRole


async def handle(request: CreateTopicsRequest, context: Context, role: ControllerRole) -> CreateTopicsResponse:
    controller = role.controller
    await role.until_placeable()
    quota = role.mutations.quota_of(context, strict_since=6)
    answer = await controller.run_long(
        lambda image: create_topics.create(image, request, controller.config, controller.new_uuid, quota)
    )
    answer.throttle_time_ms = role.mutations.throttled(quota)
    return answer
