"""The port that decides whether a client may do something; the verdict may not wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from tailrace.access.resources import AclOperation, ResourceType

# Whether the client at hand may do that with the resource of that type and name.
Authorized: TypeAlias = Callable[[AclOperation, ResourceType, str], bool]
# Whether it may do that with some resource of that type.
AuthorizedByType: TypeAlias = Callable[[AclOperation, ResourceType], bool]


class Grants:
    """The topics that one client may write, and read, by some rules: (whether by id, id or name)."""

    __slots__ = ("read", "rules", "write")

    def __init__(self, rules: object = None) -> None:
        self.rules = rules  # None: not any more
        self.read: set[tuple[bool, bytes]] = set()
        self.write: set[tuple[bool, bytes]] = set()

    def of(self, operation: AclOperation) -> set[tuple[bool, bytes]]:
        """Those of READ or of WRITE."""
        return self.write if operation is AclOperation.WRITE else self.read


class Denied(NamedTuple):
    """A right that a client has not."""

    operation: AclOperation
    resource_type: ResourceType
    name: str


class Authorizer(Protocol):
    """Kafka's Authorizer, of one operation at a time."""

    def authorize(
        self, principal: str, client_host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether the principal may do it from that host. Called from any thread."""

    def authorize_by_resource_type(
        self, principal: str, client_host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether the principal may do it to some resource of the type, as IDEMPOTENT_WRITE is implied (KIP-679)."""

    def grants(self, principal: str, client_host: str) -> Grants:
        """What is remembered of a client by the present rules."""

    def remember(self, grants: Grants, operation: AclOperation, key: tuple[bool, bytes]) -> None:
        """The client may read or write that topic."""

    def on_denied(self, principal: str, client_host: str, api_key: int, denied: Denied) -> None:
        """A request was refused for that."""
