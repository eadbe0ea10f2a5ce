"""DescribeAcls v1-3 (KIP-140). v1: patterns with a prefix (KIP-290). v3: ACLs of users."""

from tailrace.net.context import Context
from tailrace.wire.messages import DescribeAclsRequest, DescribeAclsResponse
from tailrace_controller.decide import acls
from tailrace_controller.role import ControllerRole


async def handle(request: DescribeAclsRequest, context: Context, role: ControllerRole) -> DescribeAclsResponse:
    role.check_authorizer("No Authorizer is configured on the broker")
    return await role.controller.read(lambda image: acls.describe(image, request))
