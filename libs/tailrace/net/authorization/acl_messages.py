"""ACLs and their filters as rows of CreateAcls, DescribeAcls and DeleteAcls v3, for what asks a cluster for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from tailrace.access.acls import Acl, AclPermission, PatternType
from tailrace.access.filters import AclFilter
from tailrace.access.resources import AclOperation, ResourceType
from tailrace.wire import messages as m

VERSION: Final = 3
_Message = TypeVar("_Message")
_DescribedAcl = m.DescribeAclsResponse.DescribeAclsResource.AclDescription
_DeletedAcl = m.DeleteAclsResponse.DeleteAclsFilterResult.DeleteAclsMatchingAcl


def creation(acls: Iterable[Acl]) -> m.CreateAclsRequest:
    """Creates ACLs; each has its own error in the answer, in this order."""
    rows = [
        m.CreateAclsRequest.AclCreation(
            resource_type=acl.resource_type,
            resource_name=acl.name,
            resource_pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
    return m.CreateAclsRequest(creations=rows)


def description(wanted: AclFilter) -> m.DescribeAclsRequest:
    """Asks for the ACLs that a filter names."""
    return _filtering(m.DescribeAclsRequest, wanted)


def deletion(filters: Iterable[AclFilter]) -> m.DeleteAclsRequest:
    """Deletes the ACLs that the filters name; each filter has its own error in the answer, in this order."""
    rows = [_filtering(m.DeleteAclsRequest.DeleteAclsFilter, wanted) for wanted in filters]
    return m.DeleteAclsRequest(filters=rows)


def described(answer: m.DescribeAclsResponse) -> Iterator[Acl]:
    """The ACLs of an answer to a description."""
    for found in answer.resources:
        for row in found.acls:
            yield _acl(found.resource_type, found.resource_name, found.pattern_type, row)


def deleted(answer: m.DeleteAclsResponse) -> Iterator[Acl]:
    """The ACLs of an answer to a deletion; one that several filters named comes several times."""
    for result in answer.filter_results:
        for row in result.matching_acls:
            yield _acl(row.resource_type, row.resource_name, row.pattern_type, row)


def _filtering(message: Callable[..., _Message], wanted: AclFilter) -> _Message:
    """Both messages with a filter give its fields the same names."""
    return message(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def _acl(kind: int, name: str, pattern: int, row: _DescribedAcl | _DeletedAcl) -> Acl:
    return Acl(
        ResourceType(kind),
        name,
        PatternType(pattern),
        row.principal,
        row.host,
        AclOperation(row.operation),
        AclPermission(row.permission_type),
    )
