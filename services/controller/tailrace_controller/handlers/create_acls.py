"""CreateAcls v1-3 (KIP-140). v1: patterns with a prefix (KIP-290). v3: ACLs of users."""

from tailrace.net.context import Context
from tailrace.wire.messages import CreateAclsRequest, CreateAclsResponse
from tailrace_controller.decide import acls
from tailrace_controller.role import ControllerRole


async def handle(request: CreateAclsRequest, context: Context, role: ControllerRole) -> CreateAclsResponse:
    role.check_authorizer("No Authorizer is configured.")
    controller = role.controller
    return await controller.run_long(lambda image: acls.create(image, request, controller.new_uuid))
