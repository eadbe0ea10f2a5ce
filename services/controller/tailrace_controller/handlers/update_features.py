"""UpdateFeatures v0-2 (KIP-584). v1: upgrade types and validate_only (KIP-778). v2: no results in the answer.

An error is said of the whole request, in every version.
"""

from tailrace.net.context import Context
from tailrace.wire.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from tailrace_controller.decide import features
from tailrace_controller.role import ControllerRole


async def handle(request: UpdateFeaturesRequest, context: Context, role: ControllerRole) -> UpdateFeaturesResponse:
    controller = role.controller
    return await controller.run_long(lambda image: features.update(image, request, controller.node_id))
