"""CreatePartitions v0-3 (KIP-195). The count is the new total; every topic is echoed."""

from tailrace.net.context import Context
from tailrace.wire.messages import CreatePartitionsRequest, CreatePartitionsResponse
from tailrace_controller.decide import create_partitions
from tailrace_controller.role import ControllerRole


async def handle(request: CreatePartitionsRequest, context: Context, role: ControllerRole) -> CreatePartitionsResponse:
    await role.until_placeable()
    return await role.controller.run_long(lambda image: create_partitions.create(image, request))
