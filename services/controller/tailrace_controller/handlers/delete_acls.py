"""DeleteAcls v1-3 (KIP-140). v1: patterns with a prefix (KIP-290). v3: ACLs of users."""

from tailrace.net.context import Context
from tailrace.wire.messages import DeleteAclsRequest, DeleteAclsResponse
from tailrace_controller.decide import acls
from tailrace_controller.role import ControllerRole


async def handle(request: DeleteAclsRequest, context: Context, role: ControllerRole) -> DeleteAclsResponse:
    role.check_authorizer("No Authorizer is configured.")
    return await role.controller.run_long(lambda image: acls.delete(image, request))
