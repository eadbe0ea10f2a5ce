"""RegisterService v0 (private): a gateway, coordinator or quota service. The service epoch is its record's offset."""

from tailrace.net.context import Context
from tailrace.wire.messages import RegisterServiceRequest, RegisterServiceResponse
from tailrace_controller.decide import services
from tailrace_controller.role import ControllerRole


async def handle(request: RegisterServiceRequest, context: Context, role: ControllerRole) -> RegisterServiceResponse:
    controller, service_id = role.controller, request.service_id
    connected = role.watch.sessions.is_connected(request.role, service_id, besides=context.connection)
    epoch = await controller.run(lambda image: services.register(image, request, is_connected=connected))
    role.watch.on_heartbeat(request.role, service_id, epoch, context.connection)
    return RegisterServiceResponse(
        error_code=0, controller_id=controller.node_id, controller_epoch=controller.epoch, service_epoch=epoch
    )
