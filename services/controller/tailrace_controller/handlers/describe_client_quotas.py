"""DescribeClientQuotas v0-1 (KIP-546)."""

from tailrace.net.context import Context
from tailrace.wire.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from tailrace_controller.decide import client_quotas
from tailrace_controller.role import ControllerRole


async def handle(
    request: DescribeClientQuotasRequest, context: Context, role: ControllerRole
) -> DescribeClientQuotasResponse:
    return await role.controller.read(lambda image: client_quotas.describe(image, request).reply)
