"""BrokerRegistration v0-4 (KIP-631, KIP-858). The broker epoch is the offset of the registration's record."""

from tailrace.net.context import Context
from tailrace.wire.messages import BrokerRegistrationRequest, BrokerRegistrationResponse
from tailrace_controller.decide import brokers
from tailrace_controller.role import ControllerRole
from tailrace_controller.sessions.watch import BROKER


async def handle(
    request: BrokerRegistrationRequest, context: Context, role: ControllerRole
) -> BrokerRegistrationResponse:
    connected = role.watch.sessions.is_connected(BROKER, request.broker_id, besides=context.connection)
    controller = role.controller
    response = await controller.run_in_thread(
        lambda image: brokers.register(image, request, controller.config, is_connected=connected)
    )
    role.watch.on_heartbeat(BROKER, request.broker_id, response.broker_epoch, context.connection)
    return response
