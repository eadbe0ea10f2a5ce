"""AlterClientQuotas v0-1 (KIP-546)."""

from tailrace.net.context import Context
from tailrace.wire.messages import AlterClientQuotasRequest, AlterClientQuotasResponse
from tailrace_controller.decide import client_quotas
from tailrace_controller.role import ControllerRole


async def handle(
    request: AlterClientQuotasRequest, context: Context, role: ControllerRole
) -> AlterClientQuotasResponse:
    return await role.controller.run_long(lambda image: client_quotas.alter(image, request))
