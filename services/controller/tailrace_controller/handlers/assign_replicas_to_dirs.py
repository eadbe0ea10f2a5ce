"""AssignReplicasToDirs v0 (KIP-858): a broker says in which log directory each of its replicas lies."""

from tailrace.net.context import Context
from tailrace.wire.messages import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from tailrace_controller.decide import assign_replicas
from tailrace_controller.role import ControllerRole


async def handle(
    request: AssignReplicasToDirsRequest, context: Context, role: ControllerRole
) -> AssignReplicasToDirsResponse:
    controller = role.controller
    return await controller.run_long(lambda image: assign_replicas.assign(image, request, controller.config))
