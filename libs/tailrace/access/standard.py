"""The verdict on an operation, as Apache Kafka's StandardAuthorizer gives it: deny before allow, and no rule is no."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tailrace.access.acls import ALL_USERS, WILDCARD, Acl, AclPermission, PatternType
from tailrace.access.hosts import covers
from tailrace.access.image import AclImage, ByPrincipal
from tailrace.access.resources import AclOperation, ResourceType


def super_users(value: str) -> frozenset[str]:
    """The principals of `super.users`: "User:alice;User:bob"."""
    return frozenset(principal.strip() for principal in value.split(";") if principal.strip())


@dataclass(frozen=True, slots=True)
class StandardAuthorizer:
    """An image of the ACLs and the two settings. `allow_everyone` is `allow.everyone.if.no.acl.found`."""

    acls: AclImage
    super_users: frozenset[str] = frozenset()
    allow_everyone: bool = False

    def with_acls(self, acls: AclImage) -> StandardAuthorizer:
        """The authorizer after a change of the ACLs."""
        return replace(self, acls=acls)

    def authorize(
        self, principal: str, client_host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether a client may do it to the resource with that name, be the name empty."""
        if principal in self.super_users:
            return True
        allowed = found = False
        for by_principal in self.acls.of(resource_type).on(name):
            found = True
            for acl in _about(by_principal, principal, client_host):
                if acl.covers(operation):
                    if acl.permission is AclPermission.DENY:
                        return False
                    allowed = True
        return allowed or (self.allow_everyone and not found)

    def authorize_by_resource_type(
        self, principal: str, client_host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether a client may do it to some resource of the type: looks at every ACL of the type."""
        if self.authorize(
            principal, client_host, operation, resource_type, "hardcode"
        ):  # Kafka's own name for no resource
            return True
        denied: set[tuple[PatternType, str]] = set()
        allowed: set[tuple[PatternType, str]] = set()
        patterns = self.acls.of(resource_type)
        for pattern_type, by_name in (
            (PatternType.LITERAL, patterns.literal),
            (PatternType.PREFIXED, patterns.prefixed),
        ):
            for name, by_principal in by_name.items():
                for acl in _about(by_principal, principal, client_host):
                    if acl.operation in (AclOperation.ALL, operation):
                        (denied if acl.permission is AclPermission.DENY else allowed).add((pattern_type, name))
        everything = (PatternType.LITERAL, WILDCARD)
        if everything in denied:
            return False
        return everything in allowed or any(not _denied(pattern, denied) for pattern in allowed)


def _about(by_principal: ByPrincipal, principal: str, host: str) -> Iterator[Acl]:
    for key in {principal: None, ALL_USERS: None}:
        for acl in by_principal.get(key, ()):
            if covers(acl.host, host):
                yield acl


def _denied(pattern: tuple[PatternType, str], denied: set[tuple[PatternType, str]]) -> bool:
    """Whether a rule denies all that the pattern allows."""
    pattern_type, name = pattern
    if any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1)):
        return True
    return pattern_type is PatternType.LITERAL and pattern in denied
