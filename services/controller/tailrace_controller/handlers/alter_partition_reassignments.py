"""AlterPartitionReassignments v0-1 (KIP-455). Null replicas cancel. v1: the client may forbid that the
replication factor changes (KIP-860).
"""

from tailrace.net.context import Context
from tailrace.wire.messages import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from tailrace_controller.decide import reassignments
from tailrace_controller.role import ControllerRole


async def handle(
    request: AlterPartitionReassignmentsRequest, context: Context, role: ControllerRole
) -> AlterPartitionReassignmentsResponse:
    controller, version = role.controller, context.api_version
    return await controller.run_long(lambda image: reassignments.alter(image, request, version, controller.config))
