"""DescribeConfigs v1-4. v1: synonyms (KIP-226). v3: type and documentation (KIP-569). Per-broker configs of a
broker are that broker's to describe; here they are described from the cluster's common settings."""

from tailrace.net.context import Context
from tailrace.wire.messages import DescribeConfigsRequest, DescribeConfigsResponse
from tailrace_controller.decide import describe_configs
from tailrace_controller.role import ControllerRole


async def handle(request: DescribeConfigsRequest, context: Context, role: ControllerRole) -> DescribeConfigsResponse:
    config = role.controller.config
    return await role.controller.run(lambda image: describe_configs.describe_configs(image, request, config))
