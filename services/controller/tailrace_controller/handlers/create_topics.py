"""CreateTopics v2-7. v4: -1 for broker defaults (KIP-464), which Kafka 4.3 also takes before. v5: effective configs in
the answer (KIP-525). v7: topic id. The offsets topic gets its own settings whoever asks for it.
"""

from tailrace.net.context import Context
from tailrace.wire.messages import CreateTopicsRequest, CreateTopicsResponse
from tailrace_controller.decide import create_topics
from tailrace_controller.role import ControllerRole


async def handle(request: CreateTopicsRequest, context: Context, role: ControllerRole) -> CreateTopicsResponse:
    controller = role.controller
    await role.until_placeable()
    return await controller.run_long(
        lambda image: create_topics.create(image, request, controller.config, controller.new_uuid)
    )
