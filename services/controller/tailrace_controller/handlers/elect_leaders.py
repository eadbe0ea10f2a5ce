"""ElectLeaders v0-2. v0: preferred leaders only. v1: unclean elections too (KIP-460), and null for all partitions."""

from tailrace.net.context import Context
from tailrace.wire.messages import ElectLeadersRequest, ElectLeadersResponse
from tailrace_controller.decide import elect_leaders
from tailrace_controller.role import ControllerRole


async def handle(request: ElectLeadersRequest, context: Context, role: ControllerRole) -> ElectLeadersResponse:
    controller = role.controller
    return await controller.run_long(lambda image: elect_leaders.elect(image, request, controller.config))
