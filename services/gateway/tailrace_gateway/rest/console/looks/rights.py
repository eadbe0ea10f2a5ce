"""What the user of a page may do, users that log in with a password, and ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tailrace.access.acls import Acl
from tailrace.access.image import AclImage
from tailrace.access.resources import ResourceType
from tailrace.access.scram import ScramMechanism
from tailrace.wire.apis import ApiKey
from tailrace_gateway.rest.acls.models import texts
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.console.hub import LookResult
from tailrace_gateway.rest.console.rows import Row
from tailrace_gateway.rest.users.credentials import described

RIGHTS_MS: Final = 3_000
_ROW_MS: Final = 1.0


async def rights(backend: AdminBackend, resource_type: ResourceType, name: str) -> LookResult:
    """One row: the operations on a resource that the user may do, as Kafka's answers name them (KIP-430)."""
    found = backend.rights(resource_type, name)
    row: Row = {
        "cluster_id": backend.image().cluster_id,
        "user": found.user,
        "operations": [one.name for one in found.operations],
        "creates_topics": found.creates_topics,
    }
    return LookResult({"may": row}, RIGHTS_MS)


async def users(backend: AdminBackend) -> LookResult:
    """One row for each user, with the mechanisms of its credentials."""
    found = described(backend)
    rows: dict[str, Row] = {
        name: {"mechanisms": [ScramMechanism(of).label for of in sorted(records)]} for name, records in found.items()
    }
    return LookResult(rows, max(RIGHTS_MS, len(rows) * _ROW_MS))


class AclsLook:
    """One row for each ACL."""

    def __init__(self, backend: AdminBackend) -> None:
        self._backend = backend
        self._acls: AclImage | None = None
        self._rows: dict[str, Row] = {}

    async def look(self) -> LookResult:
        acls = self._backend.cluster_image(ApiKey.DESCRIBE_ACLS).acls
        if acls is not self._acls:
            self._rows = await self._backend.run(lambda: dict(_rows(acls)))
            self._acls = acls
        return LookResult(self._rows, max(RIGHTS_MS, len(self._rows) * _ROW_MS))


def _rows(acls: AclImage) -> Iterator[tuple[str, Row]]:
    acl: Acl
    for acl in acls:
        fields = texts(acl)
        yield " ".join(fields.values()), dict(fields)
