"""DeleteTopics v1-6. v5: error messages. v6: by topic id (KIP-516). Internal topics may be deleted, as in Kafka."""

from tailrace.net.context import Context
from tailrace.wire.messages import DeleteTopicsRequest, DeleteTopicsResponse
from tailrace_controller.decide import delete_topics
from tailrace_controller.role import ControllerRole


async def handle(request: DeleteTopicsRequest, context: Context, role: ControllerRole) -> DeleteTopicsResponse:
    version, config = context.api_version, role.controller.config
    return await role.controller.run_long(lambda image: delete_topics.delete(image, request, version, config))
