"""Which ACLs a filter names."""

from __future__ import annotations

import pytest

from tailrace.access.acls import Acl, AclPermission, PatternType
from tailrace.access.filters import AclFilter
from tailrace.access.resources import AclOperation, ResourceType


def acl(name: str, pattern_type: PatternType) -> Acl:
    return Acl(ResourceType.TOPIC, name, pattern_type, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW)


ACLS = {
    "literal": acl("orders", PatternType.LITERAL),
    "prefixed": acl("ord", PatternType.PREFIXED),
    "same prefix": acl("orders", PatternType.PREFIXED),
    "wildcard": acl("*", PatternType.LITERAL),
    "other": acl("bills", PatternType.LITERAL),
}


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (AclFilter(), set(ACLS)),
        (AclFilter(name="orders"), {"literal", "same prefix"}),
        (AclFilter(name="orders", pattern_type=PatternType.LITERAL), {"literal"}),
        (AclFilter(name="ord", pattern_type=PatternType.PREFIXED), {"prefixed"}),
        (AclFilter(name="orders", pattern_type=PatternType.MATCH), {"literal", "prefixed", "same prefix", "wildcard"}),
        (AclFilter(name="*", pattern_type=PatternType.MATCH), {"wildcard"}),
        (AclFilter(pattern_type=PatternType.PREFIXED), {"prefixed", "same prefix"}),
        (AclFilter(resource_type=ResourceType.GROUP), set()),
        (AclFilter(principal="User:bob"), set()),
        (AclFilter(host="10.0.0.1"), set()),
        (AclFilter(operation=AclOperation.WRITE), set()),
        (AclFilter(permission=AclPermission.DENY), set()),
        (AclFilter(ResourceType.TOPIC, principal="User:alice", host="*", operation=AclOperation.READ), set(ACLS)),
    ],
)
def test_filters(wanted: AclFilter, named: set[str]) -> None:
    assert {key for key, found in ACLS.items() if wanted.matches(found)} == named


def test_values_of_later_versions_are_seen() -> None:
    assert AclFilter(operation=AclOperation.UNKNOWN).has_unknown
    assert not AclFilter().has_unknown
