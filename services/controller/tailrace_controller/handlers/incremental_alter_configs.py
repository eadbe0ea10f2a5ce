"""IncrementalAlterConfigs v0-1 (KIP-339) for topics, brokers (one or all), groups and client metrics."""

from tailrace.net.context import Context
from tailrace.wire.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from tailrace_controller.decide import alter_configs
from tailrace_controller.role import ControllerRole


async def handle(
    request: IncrementalAlterConfigsRequest, context: Context, role: ControllerRole
) -> IncrementalAlterConfigsResponse:
    config = role.controller.config
    return await role.controller.run_long(lambda image: alter_configs.incremental(image, request, config))
