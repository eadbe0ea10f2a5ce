"""ListPartitionReassignments v0 (KIP-455): what is under way; null topics ask for all."""

from tailrace.net.context import Context
from tailrace.wire.messages import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from tailrace_controller.decide import reassignments
from tailrace_controller.role import ControllerRole


async def handle(
    request: ListPartitionReassignmentsRequest, context: Context, role: ControllerRole
) -> ListPartitionReassignmentsResponse:
    return await role.controller.read(lambda image: reassignments.listed(image, request))
