"""An ACL: a principal may do, or may not do, an operation on the resources that a pattern matches."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tailrace.access.hosts import invalid_host
from tailrace.access.resources import CLUSTER_NAME, AclOperation, ResourceType

WILDCARD: Final = "*"
ALL_USERS: Final = "User:*"


class PatternType(IntEnum):
    """How the name of an ACL matches; ANY and MATCH are for filters (KIP-290)."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermission(IntEnum):
    """Allow or deny (org.apache.kafka.common.acl.AclPermissionType)."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


IMPLIES_DESCRIBE: Final = frozenset(
    {AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
)
IMPLIES_DESCRIBE_CONFIGS: Final = frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS})


@dataclass(frozen=True, slots=True)
class Acl:
    """A binding of a rule to a pattern of resources; `principal` with its type, as "User:alice"."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def covers(self, operation: AclOperation) -> bool:
        """Whether the rule is about an operation: an allowed one implies the right to see what it changes."""
        if self.operation in (AclOperation.ALL, operation):
            return True
        if self.permission is AclPermission.DENY:
            return False
        if operation is AclOperation.DESCRIBE:
            return self.operation in IMPLIES_DESCRIBE
        return operation is AclOperation.DESCRIBE_CONFIGS and self.operation in IMPLIES_DESCRIBE_CONFIGS


def invalid_acl(acl: Acl) -> str | None:
    """What makes CreateAcls refuse an ACL with INVALID_REQUEST."""
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.name:
        return "Invalid empty resource name"
    values = {
        "resourceType": acl.resource_type,
        "patternType": acl.pattern_type,
        "operation": acl.operation,
        "permissionType": acl.permission,
    }
    for what, value in values.items():
        if value.name in ("UNKNOWN", "ANY", "MATCH"):
            return f"Invalid {what} {value.name}"
    if ":" not in acl.principal:
        why = "no colon is present separating the principal type from the principal name"
        return f"Could not parse principal from `{acl.principal}` ({why})"
    return invalid_host(acl.host)
