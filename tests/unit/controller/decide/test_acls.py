"""CreateAcls, DescribeAcls and DeleteAcls: what Apache Kafka 4.4.0 takes and refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from support.metadata import after, cluster
from tailrace.access.acls import Acl, AclPermission, PatternType
from tailrace.access.resources import AclOperation, ResourceType
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.features import SECURITY_VERSION
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from tailrace.wire.messages import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from tailrace_controller.decide import acls
from tailrace_controller.decide.controller_result import MAX_RECORDS

EMPTY = replace(cluster(), features={SECURITY_VERSION: 1})
READ = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermission.ALLOW)
WRITE = replace(READ, operation=AclOperation.WRITE)
PREFIXED = replace(READ, name="t", pattern_type=PatternType.PREFIXED)
CLUSTER = Acl(
    ResourceType.CLUSTER,
    "kafka-cluster",
    PatternType.LITERAL,
    "User:a",
    "*",
    AclOperation.ALTER,
    AclPermission.ALLOW,
)


def with_acls(*some: Acl) -> MetadataImage:
    records = [AccessControlEntryRecord.of(UUID(int=number), acl) for number, acl in enumerate(some, 1)]
    return after(EMPTY, *records)


HELD = with_acls(READ, WRITE, PREFIXED, CLUSTER)


def row(acl: Acl, **fields: Any) -> Any:
    made = CreateAclsRequest.AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def uuids() -> Iterator[UUID]:
    return map(lambda number: UUID(int=number), count(100))


def create(image: MetadataImage, *rows: Any) -> Any:
    return acls.create(image, CreateAclsRequest(creations=list(rows)), uuids().__next__)


def wanted(of: Any = DeleteAclsRequest.DeleteAclsFilter, **fields: Any) -> Any:
    named = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    kinds = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    return of(**{**named, **kinds, **fields})


def delete(image: MetadataImage, *filters: Any) -> Any:
    return acls.delete(image, DeleteAclsRequest(filters=list(filters)))


def test_acls_are_created_once() -> None:
    effects = create(EMPTY, row(READ), row(READ), row(WRITE))
    assert [record.acl for record in effects.records] == [READ, WRITE]
    assert [(result.error_code, result.error_message) for result in effects.reply.results] == [(0, "")] * 3
    assert create(HELD, row(READ)).records == ()
    assert set(after(EMPTY, *effects.records).acls) == {READ, WRITE}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 99}, "Invalid operation UNKNOWN"),
        ({"permission_type": 4}, "Invalid permissionType UNKNOWN"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (
            {"principal": "alice"},
            "Could not parse principal from `alice` (no colon is present separating the principal type from the "
            "principal name)",
        ),
        ({"host": ""}, "Host pattern cannot be null or empty"),
        ({"host": "/"}, "Invalid CIDR notation '/': Could not parse [/]"),
        ({"resource_name": "a\0"}, "The resource name of the ACL has a NUL character."),
        ({"principal": "User:" + "x" * 600}, "The principal of the ACL has more than 512 bytes."),
    ],
)
def test_an_acl_that_cannot_be_is_refused_and_the_others_are_not(fields: dict[str, Any], why: str) -> None:
    effects = create(EMPTY, row(READ, **fields), row(WRITE))
    assert [(result.error_code, result.error_message) for result in effects.reply.results] == [
        (ErrorCode.INVALID_REQUEST, why),
        (0, ""),
    ]
    assert [record.acl for record in effects.records] == [WRITE]


def test_acls_wait_for_the_feature_that_older_versions_do_not_know() -> None:
    with pytest.raises(ApiError) as refused:
        create(cluster(), row(READ))
    assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_a_cluster_has_so_many_acls_and_no_more() -> None:
    full = with_acls(*(replace(READ, name=f"t{number}") for number in range(acls.MAX_ACLS)))
    assert create(full, row(replace(READ, name="t0"))).records == ()
    for image, rows in ((full, 1), (EMPTY, MAX_RECORDS + 1)):
        with pytest.raises(ApiError) as refused:
            create(image, *(row(replace(READ, name=f"u{number}")) for number in range(rows)))
        assert refused.value.code == ErrorCode.POLICY_VIOLATION
    with pytest.raises(ApiError) as too_many:
        delete(full, wanted())
    assert (too_many.value.code, too_many.value.message) == (
        ErrorCode.INVALID_REQUEST,
        "Cannot remove more than 10000 acls in a single delete operation.",
    )


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, [("t", 3, 2), ("t", 4, 1), ("kafka-cluster", 3, 1)]),
        ({"resource_name_filter": "tx", "pattern_type_filter": 2}, [("t", 4, 1)]),
        ({"resource_type_filter": 4}, [("kafka-cluster", 3, 1)]),
        ({"operation": 4}, [("t", 3, 1)]),
        ({"operation": 99}, []),
        ({"resource_type_filter": 99}, []),
        ({"principal_filter": "User:b"}, []),
    ],
)
def test_acls_are_described_by_the_pattern_of_their_resources(
    fields: dict[str, Any], found: list[tuple[str, int, int]]
) -> None:
    answer = acls.describe(HELD, wanted(DescribeAclsRequest, **fields))
    assert (answer.error_code, answer.error_message) == (0, "")
    assert [(one.resource_name, one.pattern_type, len(one.acls)) for one in answer.resources] == found


def test_each_filter_tells_what_it_names_and_each_acl_is_deleted_once() -> None:
    effects = delete(HELD, wanted(operation=3), wanted(resource_name_filter="t"), wanted(resource_name_filter="no"))
    assert sorted(record.id.int for record in effects.records) == [1, 2, 3]
    assert all(type(record) is RemoveAccessControlEntryRecord for record in effects.records)
    assert [len(result.matching_acls) for result in effects.reply.filter_results] == [2, 3, 0]
    assert [result.error_message for result in effects.reply.filter_results] == [None] * 3
    assert set(after(HELD, *effects.records).acls) == {CLUSTER}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"resource_type_filter": 99}, "Unknown patternFilter."),
        ({"pattern_type_filter": 5}, "Unknown patternFilter."),
        ({"operation": 99}, "Unknown entryFilter."),
        ({"permission_type": 9}, "Unknown entryFilter."),
    ],
)
def test_a_filter_of_a_later_version_is_refused_and_the_others_are_not(fields: dict[str, Any], why: str) -> None:
    effects = delete(HELD, wanted(**fields), wanted(operation=4))
    assert [(result.error_code, result.error_message) for result in effects.reply.filter_results] == [
        (ErrorCode.INVALID_REQUEST, why),
        (0, None),
    ]
    assert len(effects.records) == 1


@pytest.mark.parametrize("fields", [{}, {"resource_name_filter": "t"}])
def test_filters_that_look_at_many_acls_are_few(fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "MAX_COMPARISONS", 12)
    one = wanted(**fields, principal_filter="User:none")
    assert [result.error_code for result in delete(HELD, one, one, one).reply.filter_results] == [0, 0, 0]
    with pytest.raises(ApiError) as refused:
        delete(HELD, *[one] * 5)
    assert refused.value.code == ErrorCode.INVALID_REQUEST
