"""AlterConfigs v0-2: what is not named goes back to its default. IncrementalAlterConfigs replaces it."""

from tailrace.net.context import Context
from tailrace.wire.messages import AlterConfigsRequest, AlterConfigsResponse
from tailrace_controller.decide import alter_configs
from tailrace_controller.role import ControllerRole


async def handle(request: AlterConfigsRequest, context: Context, role: ControllerRole) -> AlterConfigsResponse:
    config = role.controller.config
    return await role.controller.run_long(lambda image: alter_configs.replacing(image, request, config))
