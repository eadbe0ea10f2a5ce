"""The port that decides whether a client may do something; the verdict may not wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from tailrace.access.resources import AclOperation, ResourceType

# Whether the client at hand may do that with the resource of that type and name.
Authorized: TypeAlias = Callable[[AclOperation, ResourceType, str], bool]


class Authorizer(Protocol):
    """Kafka's Authorizer, of one operation at a time."""

    def authorize(
        self, principal: str, client_host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether the principal may do it from that host. Called from any thread."""
