"""ACLs as JSON: Confluent's v3 names, with Kafka's words in capital letters; what a client sends may have any."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import BaseModel, BeforeValidator, Field

from tailrace.access.acls import Acl, AclPermission, PatternType
from tailrace.access.filters import AclFilter
from tailrace.access.resources import AclOperation, ResourceType
from tailrace_gateway.rest.models import Metadata, Rows, Text, Wanted


def _capitals(word: object) -> object:
    return word.upper() if isinstance(word, str) else word


_Resource: TypeAlias = Literal["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"]
_Operation: TypeAlias = Literal[
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "CREATE_TOKENS",
    "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
]
_Pattern: TypeAlias = Literal["LITERAL", "PREFIXED"]
_Permission: TypeAlias = Literal["ALLOW", "DENY"]
_ANY: TypeAlias = Literal["ANY"]
WORDS = {
    ResourceType: get_args(_Resource),
    AclOperation: get_args(_Operation),
    PatternType: get_args(_Pattern),
    AclPermission: get_args(_Permission),
}


class AclResource(BaseModel):
    """One ACL; `self` is the query that names it."""

    kind: Literal["KafkaAcl"] = "KafkaAcl"
    metadata: Metadata
    cluster_id: str
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class NewAcl(Wanted):
    """An ACL to create; each field has to be there, as in Confluent's API."""

    resource_type: Annotated[_Resource, BeforeValidator(_capitals)]
    resource_name: Text
    pattern_type: Annotated[_Pattern, BeforeValidator(_capitals)]
    principal: Text
    host: Text
    operation: Annotated[_Operation, BeforeValidator(_capitals)]
    permission: Annotated[_Permission, BeforeValidator(_capitals)]

    def acl(self) -> Acl:
        """As the cluster keeps it."""
        return Acl(
            ResourceType[self.resource_type],
            self.resource_name,
            PatternType[self.pattern_type],
            self.principal,
            self.host,
            AclOperation[self.operation],
            AclPermission[self.permission],
        )


class NewAcls(Wanted):
    data: Rows[NewAcl]


_Name: TypeAlias = Annotated[Text, Field(min_length=1)]


class AclQuery(Wanted):
    """What a list or a deletion names; what it leaves out, or ANY, is all. An empty text is a mistake, not all."""

    resource_type: Annotated[_Resource | _ANY, BeforeValidator(_capitals)] = "ANY"
    resource_name: _Name | None = None
    pattern_type: Annotated[_Pattern | Literal["ANY", "MATCH"], BeforeValidator(_capitals)] = "ANY"
    principal: _Name | None = None
    host: _Name | None = None
    operation: Annotated[_Operation | _ANY, BeforeValidator(_capitals)] = "ANY"
    permission: Annotated[_Permission | _ANY, BeforeValidator(_capitals)] = "ANY"

    def filter(self) -> AclFilter:
        """As Kafka has it."""
        return AclFilter(
            ResourceType[self.resource_type],
            self.resource_name,
            PatternType[self.pattern_type],
            self.principal,
            self.host,
            AclOperation[self.operation],
            AclPermission[self.permission],
        )


def texts(acl: Acl) -> dict[str, str]:
    """The fields of an ACL as words."""
    return {
        "resource_type": acl.resource_type.name,
        "resource_name": acl.name,
        "pattern_type": acl.pattern_type.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }
