"""AllocateProducerIds v0 (KIP-730): blocks of 1000, from registered brokers only."""

from tailrace.net.context import Context
from tailrace.wire.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tailrace_controller.decide import producer_ids
from tailrace_controller.role import ControllerRole


async def handle(
    request: AllocateProducerIdsRequest, context: Context, role: ControllerRole
) -> AllocateProducerIdsResponse:
    return await role.controller.run(lambda image: producer_ids.allocate(image, request))
