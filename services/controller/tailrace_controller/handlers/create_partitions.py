"""CreatePartitions v0-3 (KIP-195). The count is the new total; every topic is echoed. v3: topics above the quota are
refused (KIP-599), in older versions only throttled.
"""

from tailrace.net.context import Context
from tailrace.wire.messages import CreatePartitionsRequest, CreatePartitionsResponse
from tailrace_controller.decide import create_partitions
from tailrace_controller.role import ControllerRole


async def handle(request: CreatePartitionsRequest, context: Context, role: ControllerRole) -> CreatePartitionsResponse:
    await role.until_placeable()
    quota = role.mutations.quota_of(context, strict_since=3)
    answer = await role.controller.run_long(lambda image: create_partitions.create(image, request, quota))
    answer.throttle_time_ms = role.mutations.throttled(quota)
    return answer
