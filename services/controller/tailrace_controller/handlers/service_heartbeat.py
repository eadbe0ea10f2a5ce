"""ServiceHeartbeat v0 (private): a few fields of fixed size, so that nothing a client sends can make it late."""

from tailrace.net.context import Context
from tailrace.wire.messages import ServiceHeartbeatRequest, ServiceHeartbeatResponse
from tailrace_controller.decide import services
from tailrace_controller.election.acceptance import Seen
from tailrace_controller.role import ControllerRole


async def handle(request: ServiceHeartbeatRequest, context: Context, role: ControllerRole) -> ServiceHeartbeatResponse:
    controller = role.controller
    await controller.until_active()
    await controller.check(Seen(request.metadata_offset))
    services.heartbeat(controller.image, request)  # refuses an unknown service or epoch before it counts as heard
    role.watch.on_heartbeat(request.role, request.service_id, request.service_epoch, context.connection)
    await controller.run(lambda image: services.heartbeat(image, request), behind=False)
    if request.want_shut_down:
        role.watch.left(request.role, request.service_id, request.service_epoch)
    return ServiceHeartbeatResponse(error_code=0, controller_epoch=controller.epoch)
