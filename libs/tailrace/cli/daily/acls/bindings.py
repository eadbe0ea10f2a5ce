"""What the options of `tailrace acl` name: ACLs to create, or filters of those that there are.

The options, and what `--producer` and `--consumer` stand for, are those of kafka-acls.sh.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from tailrace.access.acls import Acl, AclPermission, PatternType
from tailrace.access.filters import AclFilter
from tailrace.access.hosts import ALL_HOSTS
from tailrace.access.resources import CLUSTER_NAME, AclOperation, ResourceType

_O = AclOperation
_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_CLUSTER, _TRANSACTIONAL_ID = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
# Of each type what may be granted, as kafka-acls.sh checks it.
OPERATIONS: Final = {
    _TOPIC: (_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    _GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    _CLUSTER: (
        *(_O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
        *(_O.IDEMPOTENT_WRITE, _O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
    ),
    _TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE, _O.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    ResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}


class AclOptionsError(ValueError):
    """Options that do not go together; the text says why."""


@dataclass(frozen=True, slots=True)
class Resources:
    """The names of each type, and the pattern that they are."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    cluster: bool = False
    transactional_ids: tuple[str, ...] = ()
    delegation_tokens: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    pattern_type: PatternType = PatternType.LITERAL

    def __iter__(self) -> Iterator[tuple[ResourceType, str]]:
        yield from ((_TOPIC, name) for name in self.topics)
        yield from ((_GROUP, name) for name in self.groups)
        yield from [(_CLUSTER, CLUSTER_NAME)] if self.cluster else ()
        yield from ((_TRANSACTIONAL_ID, name) for name in self.transactional_ids)
        yield from ((ResourceType.DELEGATION_TOKEN, name) for name in self.delegation_tokens)
        yield from ((ResourceType.USER, name) for name in self.users)


@dataclass(frozen=True, slots=True)
class AclRules:
    """Who is allowed and denied what, and from where; no host is every host."""

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    denied_hosts: tuple[str, ...] = ()
    operations: tuple[AclOperation, ...] = ()
    producer: bool = False
    consumer: bool = False
    idempotent: bool = False

    def operations_on(self, resource_type: ResourceType) -> tuple[AclOperation, ...]:
        """What the rules are about, for a resource of that type."""
        if not (self.producer or self.consumer):
            return self.operations or (_O.ALL,)
        found: list[AclOperation] = []
        if self.producer:
            found += {_TOPIC: (_O.WRITE, _O.DESCRIBE, _O.CREATE), _TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE)}.get(
                resource_type, ()
            )
        if self.consumer:
            found += {_TOPIC: (_O.READ, _O.DESCRIBE), _GROUP: (_O.READ,)}.get(resource_type, ())
        return tuple(dict.fromkeys(found))

    def entries(self) -> Iterator[tuple[str, str, AclPermission]]:
        """(principal, host, permission) of each rule."""
        yield from product(self.allowed, self.allowed_hosts or (ALL_HOSTS,), (AclPermission.ALLOW,))
        yield from product(self.denied, self.denied_hosts or (ALL_HOSTS,), (AclPermission.DENY,))


def acls_of(resources: Resources, rules: AclRules) -> list[Acl]:
    """The ACLs that the options name; AclOptionsError where they name none, or one that cannot be."""
    if resources.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise AclOptionsError("--resource-pattern-type of a new ACL is literal or prefixed")
    if not (rules.allowed or rules.denied):
        raise AclOptionsError("whose? --allow-principal User:NAME, or --deny-principal User:NAME")
    _check(resources, rules)
    made = [
        Acl(kind, name, _pattern(kind, resources), principal, host, operation, permission)
        for kind, name in resources
        for operation in rules.operations_on(kind)
        for principal, host, permission in rules.entries()
    ]
    if rules.idempotent:
        literal = PatternType.LITERAL
        made += [
            Acl(_CLUSTER, CLUSTER_NAME, literal, principal, host, _O.IDEMPOTENT_WRITE, permission)
            for principal, host, permission in rules.entries()
        ]
    return list(dict.fromkeys(made))


def _pattern(kind: ResourceType, resources: Resources) -> PatternType:
    """The cluster has one name."""
    return PatternType.LITERAL if kind is _CLUSTER else resources.pattern_type


def _check(resources: Resources, rules: AclRules) -> None:
    if not list(resources) and not rules.idempotent:
        raise AclOptionsError("for what? --topic, --group, --cluster, --transactional-id, --delegation-token or --user")
    if rules.idempotent and not rules.producer:
        raise AclOptionsError("--idempotent goes with --producer")
    if rules.producer and not resources.topics:
        raise AclOptionsError("--producer needs --topic")
    if rules.consumer and not (resources.topics and resources.groups):
        raise AclOptionsError("--consumer needs --topic and --group")
    if rules.operations and (rules.producer or rules.consumer):
        raise AclOptionsError("--operation, or --producer and --consumer")
    for kind, _ in resources:
        for operation in rules.operations:
            if operation is not _O.ALL and operation not in OPERATIONS[kind]:
                names = ", ".join(one.name.lower() for one in OPERATIONS[kind])
                raise AclOptionsError(f"a {kind.name.lower()} has no operation {operation.name.lower()}, but {names}")


def filters_of(
    resources: Resources,
    principals: Iterable[str] = (),
    operations: Iterable[AclOperation] = (),
    permission: AclPermission = AclPermission.ANY,
    host: str | None = None,
) -> list[AclFilter]:
    """The filters that name what the options do; one that names every ACL where there are none."""
    every: list[tuple[ResourceType, str | None]] = [(ResourceType.ANY, None)]
    return [
        AclFilter(kind, name, resources.pattern_type, principal, host, operation, permission)
        for kind, name in [*resources] or every
        for principal in tuple(principals) or (None,)
        for operation in tuple(operations) or (_O.ANY,)
    ]
