"""ListConfigResources v0-1 (KIP-1142). v0 is ListClientMetricsResources (KIP-714)."""

from tailrace.net.context import Context
from tailrace.wire.messages import ListConfigResourcesRequest, ListConfigResourcesResponse
from tailrace_controller.decide import describe_configs
from tailrace_controller.role import ControllerRole


async def handle(
    request: ListConfigResourcesRequest, context: Context, role: ControllerRole
) -> ListConfigResourcesResponse:
    version = context.api_version
    return await role.controller.read(lambda image: describe_configs.list_resources(image, request, version).reply)
