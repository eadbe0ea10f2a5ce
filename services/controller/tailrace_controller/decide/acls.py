"""CreateAcls, DescribeAcls and DeleteAcls (KIP-140, KIP-290): Kafka's AclControlManager, and its sentences.

An ACL that is there already is created without a record. One that two filters name is in the answers of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from itertools import groupby
from typing import Final, TypeVar
from uuid import UUID

from tailrace.access.acls import Acl, AclPermission, PatternType, invalid_acl
from tailrace.access.filters import AclFilter
from tailrace.access.resources import AclOperation, ResourceType
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.features import SECURITY_VERSION
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from tailrace.net.limits.answer_budget import fitting, text_bytes
from tailrace.wire.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from tailrace_controller.decide import record_text
from tailrace_controller.decide.controller_result import MAX_RECORDS, ControllerResult, check_size

MAX_ACLS: Final = 20_000  # of a cluster: each role holds all, and some questions look at each
MAX_COMPARISONS: Final = 2_000_000  # of ACLs with the filters of one request: 3 s; 100 filters that look at all ACLs
_Kind = TypeVar("_Kind", bound=IntEnum)
_ACL_BYTES: Final = 16  # of an ACL in an answer, short of its text


def create(
    image: MetadataImage, request: CreateAclsRequest, new_uuid: Callable[[], UUID]
) -> ControllerResult[CreateAclsResponse]:
    """Each ACL has its own error; POLICY_VIOLATION for all where they are too many."""
    if not image.features.get(SECURITY_VERSION):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"The feature {SECURITY_VERSION} is not enabled.")
    records: dict[Acl, AccessControlEntryRecord] = {}
    results = []
    for row in request.creations:
        code, message = ErrorCode.NONE, ""
        acl = _acl(row)
        try:
            if acl not in records and acl not in image.acls:
                records[acl] = _record(acl, new_uuid)
        except ApiError as refused:
            code, message = refused.code, refused.message or ""
        results.append(CreateAclsResponse.AclCreationResult(error_code=code, error_message=message))
    check_size(records)
    if records and len(image.acl_ids) + len(records) > MAX_ACLS:
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"A cluster has at most {MAX_ACLS} ACLs.")
    return ControllerResult(CreateAclsResponse(results=results), tuple(records.values()))


def _record(acl: Acl, new_uuid: Callable[[], UUID]) -> AccessControlEntryRecord:
    if (why := invalid_acl(acl)) is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, why)
    record = AccessControlEntryRecord.of(new_uuid(), acl)
    record_text.check((record,))
    return record


def _acl(row: CreateAclsRequest.AclCreation) -> Acl:
    return Acl(
        _known(ResourceType, row.resource_type),
        row.resource_name,
        _known(PatternType, row.resource_pattern_type),
        row.principal,
        row.host,
        _known(AclOperation, row.operation),
        _known(AclPermission, row.permission_type),
    )


def _known(of: type[_Kind], number: int) -> _Kind:
    """UNKNOWN for a number of a later version, as Kafka reads it."""
    try:
        return of(number)
    except ValueError:
        return of(0)


def _filter(row: DescribeAclsRequest | DeleteAclsRequest.DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        _known(ResourceType, row.resource_type_filter),
        row.resource_name_filter,
        _known(PatternType, row.pattern_type_filter),
        row.principal_filter,
        row.host_filter,
        _known(AclOperation, row.operation),
        _known(AclPermission, row.permission_type),
    )


def describe(image: MetadataImage, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """The ACLs that the filter names, by the pattern of their resources; an unknown value names none."""
    acls = sorted(fitting(image.acls.matching(_filter(request)), _size_bytes), key=_order)
    resource = DescribeAclsResponse.DescribeAclsResource
    resources = [
        resource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=[_described(acl) for acl in some])
        for (kind, name, pattern), some in groupby(acls, key=lambda acl: _order(acl)[:3])
    ]
    return DescribeAclsResponse(error_code=ErrorCode.NONE, error_message="", resources=resources)


def _described(acl: Acl) -> DescribeAclsResponse.DescribeAclsResource.AclDescription:
    return DescribeAclsResponse.DescribeAclsResource.AclDescription(
        principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
    )


def _order(acl: Acl) -> tuple[int, str, int, str, str, int, int]:
    pattern = (int(acl.resource_type), acl.name, int(acl.pattern_type))
    return *pattern, acl.principal, acl.host, int(acl.operation), int(acl.permission)


def _size_bytes(acl: Acl) -> int:
    return _ACL_BYTES + text_bytes(acl.name) + text_bytes(acl.principal) + text_bytes(acl.host)


def delete(image: MetadataImage, request: DeleteAclsRequest) -> ControllerResult[DeleteAclsResponse]:
    """Each filter has its own error; INVALID_REQUEST for all where they name too many ACLs."""
    filters = [_filter(row) for row in request.filters]
    ids = {acl: acl_id for acl_id, acl in image.acl_ids.items()}
    named: dict[Acl, None] = {}
    results = []
    total = compared = 0
    for wanted in filters:
        if (why := _unknown(wanted)) is not None:
            results.append(_result(ErrorCode.INVALID_REQUEST, why, ()))
            continue
        found = list[Acl]()
        for acl in image.acls.candidates(wanted):
            if wanted.matches(acl):
                found.append(acl)
            compared += 1
            if compared > MAX_COMPARISONS:
                why = f"The filters compare more than {MAX_COMPARISONS} acls in a single delete operation."
                raise ApiError(ErrorCode.INVALID_REQUEST, why)
        named |= dict.fromkeys(found)
        total += len(found)
        if total > MAX_RECORDS:
            why = f"Cannot remove more than {MAX_RECORDS} acls in a single delete operation."
            raise ApiError(ErrorCode.INVALID_REQUEST, why)
        results.append(_result(ErrorCode.NONE, None, found))
    records = tuple(RemoveAccessControlEntryRecord(ids[acl]) for acl in named)
    return ControllerResult(DeleteAclsResponse(filter_results=results), records)


def _unknown(wanted: AclFilter) -> str | None:
    if 0 in (wanted.resource_type, wanted.pattern_type):
        return "Unknown patternFilter."
    return "Unknown entryFilter." if wanted.has_unknown else None


def _result(code: ErrorCode, message: str | None, found: Iterable[Acl]) -> DeleteAclsResponse.DeleteAclsFilterResult:
    result = DeleteAclsResponse.DeleteAclsFilterResult
    matching = [
        result.DeleteAclsMatchingAcl(
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=acl.resource_type,
            resource_name=acl.name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in found
    ]
    return result(error_code=code, error_message=message, matching_acls=matching)
