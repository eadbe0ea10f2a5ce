"""The authorizer of a role: Kafka's StandardAuthorizer, by the ACLs of the metadata image that the role follows.

A change of the ACLs holds from the next question on. What a client was allowed is remembered as long as the ACLs are
the same, so that a Produce or Fetch does not ask for its topics again.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias

from tailrace.access.authorizer import Denied, Grants
from tailrace.access.image import AclImage
from tailrace.access.resources import AclOperation, ResourceType
from tailrace.access.standard import StandardAuthorizer
from tailrace.metadata.image import MetadataImage
from tailrace.net.authorization.denials import Denials

MAX_GRANTS: Final = 100_000  # of a role; then all are forgotten
MAX_BY_TYPE: Final = 10_000  # verdicts by type of resource, likewise: each looks at every ACL
ByType: TypeAlias = dict[tuple[str, str, AclOperation, ResourceType], bool]


class FollowedMetadata(Protocol):
    """What is asked of the metadata follower."""

    @property
    def image(self) -> MetadataImage: ...


class ImageAuthorizer:
    """As tailrace.access.authorizer.Authorizer."""

    def __init__(
        self, source: FollowedMetadata, super_users: frozenset[str], denials: Denials, *, allow_everyone: bool
    ) -> None:
        self._source = source
        self._denials = denials
        self._standard = StandardAuthorizer(AclImage(), super_users, allow_everyone)
        self._granted: dict[tuple[str, str], Grants] = {}
        self._granted_by: AclImage | None = None
        self._count = 0
        self._by_type: tuple[AclImage | None, ByType] = None, {}

    def authorize(
        self, principal: str, client_host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        return self._present().authorize(principal, client_host, operation, resource_type, name)

    def _present(self) -> StandardAuthorizer:
        acls, standard = self._source.image.acls, self._standard
        if standard.acls is not acls:
            standard = self._standard = standard.with_acls(acls)
        return standard

    def authorize_by_resource_type(
        self, principal: str, client_host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        standard = self._present()
        acls, verdicts = self._by_type
        if acls is not standard.acls or len(verdicts) >= MAX_BY_TYPE:
            verdicts = {}
            self._by_type = standard.acls, verdicts
        question = principal, client_host, operation, resource_type
        verdict = verdicts.get(question)
        if verdict is None:
            verdict = verdicts[question] = standard.authorize_by_resource_type(*question)
        return verdict

    def grants(self, principal: str, client_host: str) -> Grants:
        acls = self._source.image.acls
        if acls is not self._granted_by or self._count >= MAX_GRANTS:
            self._forget(acls)
        client = principal, client_host
        found = self._granted.get(client)
        if found is None:
            self._count += 1
            found = self._granted[client] = Grants(acls)
        return found

    def remember(self, grants: Grants, operation: AclOperation, key: tuple[bool, bytes]) -> None:
        self._count += 1
        grants.of(operation).add(key)

    def on_denied(self, principal: str, client_host: str, api_key: int, denied: Denied) -> None:
        self._denials.add(principal, client_host, api_key, denied)

    def _forget(self, acls: AclImage) -> None:
        for grants in self._granted.values():
            grants.rules = None
        self._granted, self._granted_by, self._count = {}, acls, 0
