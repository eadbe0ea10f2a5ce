"""UnregisterBroker v0 (KIP-631): forgets a broker for good."""

from tailrace.net.context import Context
from tailrace.wire.messages import UnregisterBrokerRequest, UnregisterBrokerResponse
from tailrace_controller.decide import brokers
from tailrace_controller.role import ControllerRole


async def handle(request: UnregisterBrokerRequest, context: Context, role: ControllerRole) -> UnregisterBrokerResponse:
    controller = role.controller
    return await controller.run_long(lambda image: brokers.unregister(image, request.broker_id, controller.config))
