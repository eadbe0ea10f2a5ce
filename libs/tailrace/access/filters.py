"""The filters of DescribeAcls and DeleteAcls."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.access.acls import WILDCARD, Acl, AclPermission, PatternType
from tailrace.access.resources import AclOperation, ResourceType


@dataclass(frozen=True, slots=True)
class AclFilter:
    """What is None, or ANY, matches all."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    @property
    def has_unknown(self) -> bool:
        """Whether a value is of a later version; such a filter is refused."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission)

    def matches(self, acl: Acl) -> bool:
        """Whether the ACL is among those that the filter names; its host is compared as text."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        """MATCH finds each pattern that a resource of that name falls under, the wildcard's too (KIP-290)."""
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        if acl.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name == WILDCARD
