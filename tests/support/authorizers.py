"""Authorizers that remember what they were asked, and Kafka's table of what they are to be asked."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tailrace.access.authorizer import Denied, Grants
from tailrace.access.resources import AclOperation, ResourceType

ANY = "(any)"  # in place of a name: the right to some resource of the type
TABLE = Path(__file__).parent.parent / "unit/access/authorizations.tsv"


class Asked(NamedTuple):
    """One call of an authorizer."""

    operation: str
    resource: str
    name: str


class Recorder:
    """Grants what `grants` says, nothing without it."""

    def __init__(self, grants: Callable[[Asked], bool] | None = None) -> None:
        self.asked: list[Asked] = []
        self.denied: list[tuple[int, Denied]] = []  # by API
        self._grants = grants

    def authorize(
        self, principal: str, client_host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        asked = Asked(operation.name, resource_type.name, name)
        self.asked.append(asked)
        return self._grants is not None and self._grants(asked)

    def authorize_by_resource_type(
        self, principal: str, client_host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        return self.authorize(principal, client_host, operation, resource_type, ANY)

    def grants(self, principal: str, client_host: str) -> Grants:
        """Nothing is remembered."""
        return Grants()

    def remember(self, grants: Grants, operation: AclOperation, key: tuple[bool, bytes]) -> None: ...

    def on_denied(self, principal: str, client_host: str, api_key: int, denied: Denied) -> None:
        """What is refused, in its order."""
        self.denied.append((api_key, denied))


class Row(NamedTuple):
    """A row of the table: note says when the right is asked for, or why it never is."""

    api: str
    operation: str
    resource: str
    name: str
    asked: str
    note: str


def table() -> list[Row]:
    """Kafka's operations and resources on protocols, of the APIs that are served."""
    with TABLE.open(newline="") as file:
        return [Row(**row) for row in csv.DictReader(file, delimiter="\t")]


def expected(api: str) -> set[Asked]:
    """What is asked for an API."""
    return {Asked(row.operation, row.resource, row.name) for row in table() if row.api == api and row.asked == "yes"}
