"""ACLs and questions that often meet: few names that are prefixes of one another, few users, few hosts."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tailrace.access.acls import Acl, AclPermission, PatternType
from tailrace.access.resources import AclOperation, ResourceType

NAMES = ("*", "a", "ab", "abc", "abd", "b", "hard", "hardcode")
USERS = ("User:alice", "User:bob", "User:*", "Group:alice")
HOSTS = ("*", "*", "10.0.0.1", "10.0.0.0/8", "10.0.0.128/25", "192.168.1.1", "2001:db8::/32", "broken/8")
ADDRESSES = ("10.0.0.1", "10.0.0.200", "192.168.1.1", "2001:db8:0:0:0:0:0:1")
TYPES = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
OPERATIONS = tuple(operation for operation in AclOperation if operation > AclOperation.ALL)


@dataclass(frozen=True)
class Question:
    """Whether a client may do it."""

    principal: str
    host: str
    operation: AclOperation
    resource_type: ResourceType
    name: str


def acl(rng: Random) -> Acl:
    """One ACL."""
    return Acl(
        rng.choice(TYPES),
        rng.choice(NAMES),
        rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        rng.choice(USERS),
        rng.choice(HOSTS),
        rng.choice((AclOperation.ALL, *OPERATIONS)),
        rng.choice((AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY)),
    )


def question(rng: Random) -> Question:
    """One question."""
    user = rng.choice((*USERS[:2], "User:carol"))
    name = rng.choice(NAMES)
    if name != "*":  # for names that begin with it, Kafka forgets the wildcard's ACLs
        name += rng.choice(("", "b", "x"))
    return Question(user, rng.choice(ADDRESSES), rng.choice(OPERATIONS), rng.choice(TYPES), name)
