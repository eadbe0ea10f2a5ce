"""Creating, finding and deleting ACLs: CreateAcls, DescribeAcls and DeleteAcls v3."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.access.acls import Acl
from tailrace.access.filters import AclFilter
from tailrace.net.authorization import acl_messages
from tailrace.wire.messages import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.errors import check


async def create(backend: AdminBackend, acls: Sequence[Acl]) -> None:
    """Creates all that can be; the first refusal is raised after that, others may be done."""
    request: CreateAclsRequest = acl_messages.creation(acls)
    answer = await backend.ask_controller(request, acl_messages.VERSION)
    for result in answer.results:
        check(result.error_code, result.error_message)


async def matching(backend: AdminBackend, wanted: AclFilter) -> list[Acl]:
    """The ACLs that a filter names."""
    request: DescribeAclsRequest = acl_messages.description(wanted)
    answer = await backend.ask_controller(request, acl_messages.VERSION)
    check(answer.error_code, answer.error_message)
    return list(acl_messages.described(answer))


async def delete(backend: AdminBackend, wanted: AclFilter) -> list[Acl]:
    """Deletes the ACLs that a filter names, and returns them."""
    request: DeleteAclsRequest = acl_messages.deletion([wanted])
    answer = await backend.ask_controller(request, acl_messages.VERSION)
    for result in answer.filter_results:
        check(result.error_code, result.error_message)
    return list(acl_messages.deleted(answer))
