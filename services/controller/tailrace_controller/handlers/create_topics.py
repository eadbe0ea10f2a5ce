"""CreateTopics v2-7. v4: -1 for broker defaults (KIP-464). v5: effective configs in the answer (KIP-525). v7: topic id.

On internal listeners it also makes internal topics: their name decides, they get the offsets topic's own settings.
"""

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import CreateTopicsRequest, CreateTopicsResponse
from tailrace_controller.decide import create_topics
from tailrace_controller.role import ControllerRole


async def handle(request: CreateTopicsRequest, context: Context, role: ControllerRole) -> CreateTopicsResponse:
    if context.api_version < 4 and any(
        not topic.assignments and -1 in (topic.num_partitions, topic.replication_factor) for topic in request.topics
    ):
        raise ApiError(ErrorCode.INVALID_REQUEST, "broker defaults are taken from version 4 on (KIP-464)")
    controller = role.controller
    return await controller.run(
        lambda image: create_topics.create(image, request, controller.config, controller.new_uuid)
    )
