"""One ACL: what it covers, and what makes it invalid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tailrace.access.acls import Acl, AclPermission, PatternType, invalid_acl
from tailrace.access.resources import AclOperation, ResourceType

ACL = Acl(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermission.ALLOW,
)


@pytest.mark.parametrize(
    ("of_acl", "implied"),
    [
        (AclOperation.READ, {AclOperation.DESCRIBE}),
        (AclOperation.WRITE, {AclOperation.DESCRIBE}),
        (AclOperation.DELETE, {AclOperation.DESCRIBE}),
        (AclOperation.ALTER, {AclOperation.DESCRIBE}),
        (AclOperation.DESCRIBE, set()),
        (AclOperation.CREATE, set()),
        (AclOperation.ALTER_CONFIGS, {AclOperation.DESCRIBE_CONFIGS}),
        (AclOperation.ALL, set(AclOperation)),
    ],
)
def test_a_right_to_change_is_one_to_see(of_acl: AclOperation, implied: set[AclOperation]) -> None:
    allowed = replace(ACL, operation=of_acl)
    assert {operation for operation in AclOperation if allowed.covers(operation)} == implied | {of_acl}


def test_what_is_denied_denies_nothing_else() -> None:
    denied = replace(ACL, permission=AclPermission.DENY)
    assert {operation for operation in AclOperation if denied.covers(operation)} == {AclOperation.READ}


@pytest.mark.parametrize(
    ("acl", "text"),
    [
        (replace(ACL, resource_type=ResourceType.ANY), "Invalid resourceType ANY"),
        (replace(ACL, pattern_type=PatternType.MATCH), "Invalid patternType MATCH"),
        (replace(ACL, operation=AclOperation.UNKNOWN), "Invalid operation UNKNOWN"),
        (replace(ACL, permission=AclPermission.ANY), "Invalid permissionType ANY"),
        (replace(ACL, name=""), "Invalid empty resource name"),
        (replace(ACL, resource_type=ResourceType.CLUSTER), "The only valid name for the CLUSTER resource is"),
        (replace(ACL, principal="alice"), "Could not parse principal from `alice`"),
        (replace(ACL, host="10.0.0.0/33"), "Invalid CIDR notation"),
    ],
)
def test_acls_that_are_refused(acl: Acl, text: str) -> None:
    assert (invalid_acl(acl) or "").startswith(text)


def test_acls_that_are_taken() -> None:
    assert invalid_acl(ACL) is None
    assert invalid_acl(replace(ACL, resource_type=ResourceType.CLUSTER, name="kafka-cluster")) is None
