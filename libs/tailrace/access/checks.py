"""The kinds of checks of a request: all of it, rows of it by themselves, rows of its answer.

Before the handler a check takes from the request what is refused; what a handler is given may all be done. After it a
check takes from the answer what the client may not know.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import UUID

from tailrace.access.authorizer import Authorized, AuthorizedByType, Denied
from tailrace.access.resources import CLUSTER_NAME, FAILED, OPERATIONS, AclOperation, ResourceType
from tailrace.errors import ErrorCode

# The name of a topic by its id; None: there is none, and the handler says so.
TopicName: TypeAlias = Callable[[UUID], str | None]
# Of a message or row of any API, and its version: the resource's name; None: it needs no right.
NameOf: TypeAlias = Callable[[object, int, TopicName], str | None]


class Access(NamedTuple):
    """The client that asks, and the version in which it does."""

    authorized: Authorized
    authorized_by_type: AuthorizedByType
    version: int
    topic_name: TopicName

    def cluster(self, operation: AclOperation) -> bool:
        """Whether it may do that with the cluster."""
        return self.authorized(operation, ResourceType.CLUSTER, CLUSTER_NAME)


class RefusedPart(NamedTuple):
    """A request of the rows that are refused, their error code, and the right that the first of them needs."""

    request: object
    code: ErrorCode
    denied: Denied | None  # None: of rows that are not attempted because of others


class Left(NamedTuple):
    """What is left of a request to be handled, None for nothing, and what of it is refused."""

    request: object
    refused: Sequence[RefusedPart] = ()


class Check:
    """One row of the table; by itself it refuses nothing."""

    def before(self, request: object, access: Access) -> Left:
        """What of the request may be handled."""
        return Left(request)

    def after(self, request: object, response: object, access: Access) -> None:
        """Takes from the answer what the client may not know."""


def granted(authorized: Authorized, resource_type: ResourceType, name: str) -> set[int]:
    """What the client may do with a resource (KIP-430): nothing where it may not know of it."""
    if not authorized(AclOperation.DESCRIBE, resource_type, name):
        return set()
    return {int(one) for one in OPERATIONS[resource_type] if authorized(one, resource_type, name)}


def field(name: str) -> NameOf:
    """The resource's name is a field of the row, be it empty; where the field is null nothing is checked."""

    def name_of(row: object, version: int, topic_name: TopicName) -> str | None:
        found: str | None = getattr(row, name)
        return found

    return name_of


def itself(row: object, version: int, topic_name: TopicName) -> str | None:
    """The row is the resource's name."""
    return str(row)


def the_cluster(row: object, version: int, topic_name: TopicName) -> str | None:
    """The cluster, whatever the row."""
    return CLUSTER_NAME


def topic(row: object, version: int, topic_name: TopicName) -> str | None:
    """A topic by its name, or by its id; an empty name is one where there is no id."""
    name: str | None = getattr(row, "name", None)
    if name is None:
        name = getattr(row, "topic", None)
    topic_id = getattr(row, "topic_id", None)
    return name if name or topic_id is None else topic_name(topic_id)


@dataclass(frozen=True, slots=True)
class Whole(Check):
    """The request as a whole needs one of the operations on a resource."""

    resource_type: ResourceType
    operations: tuple[AclOperation, ...]
    name_of: NameOf = the_cluster
    or_any: tuple[AclOperation, ResourceType] | None = None  # the right to some resource of a type will do instead

    def before(self, request: object, access: Access) -> Left:
        name = self.name_of(request, access.version, access.topic_name)
        if name is None or any(access.authorized(one, self.resource_type, name) for one in self.operations):
            return Left(request)
        if self.or_any is not None and access.authorized_by_type(*self.or_any):
            return Left(request)
        denied = Denied(self.operations[0], self.resource_type, name)
        return Left(None, [RefusedPart(request, FAILED[self.resource_type], denied)])


TypeOf: TypeAlias = Callable[[object], ResourceType | None]


@dataclass(frozen=True, slots=True)
class RequestRows(Check):
    """Each row of a list needs an operation on its resource; the others are handled without it."""

    list_name: str
    operation: AclOperation
    resource_type: ResourceType | TypeOf
    name_of: NameOf
    unless_cluster: AclOperation | None = None  # with this right to the cluster no row is asked for
    others: ErrorCode | None = None  # the code of all others where one is refused: all are handled or none

    def before(self, request: object, access: Access) -> Left:
        rows = getattr(request, self.list_name, None)
        if not rows or (self.unless_cluster is not None and access.cluster(self.unless_cluster)):
            return Left(request)
        left, refused, first = list[object](), dict[ErrorCode, list[object]](), dict[ErrorCode, Denied]()
        for row in rows:
            if (denied := self._denied(row, access)) is None:
                left.append(row)
            else:
                code = FAILED[denied.resource_type]
                refused.setdefault(code, []).append(row)
                first.setdefault(code, denied)
        if not refused:
            return Left(request)
        if left and self.others is not None:
            refused[self.others], left = left, []
        parts = [RefusedPart(self._with(request, some), code, first.get(code)) for code, some in refused.items()]
        return Left(self._with(request, left) if left else None, parts)

    def _denied(self, row: object, access: Access) -> Denied | None:
        kind = self.resource_type if isinstance(self.resource_type, ResourceType) else self.resource_type(row)
        if kind is None:
            return None
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else self.name_of(row, access.version, access.topic_name)
        if name is None or access.authorized(self.operation, kind, name):
            return None
        return Denied(self.operation, kind, name)

    def _with(self, request: object, rows: list[object]) -> object:
        part = copy.copy(request)
        setattr(part, self.list_name, rows)
        return part


@dataclass(frozen=True, slots=True)
class AnswerRows(Check):
    """RequestRows of an answer that the client may not know are left out."""

    list_name: str
    operation: AclOperation
    resource_type: ResourceType
    name_of: NameOf
    unless_cluster: AclOperation | None = None
    within: str = ""  # the list whose rows have that list

    def after(self, request: object, response: object, access: Access) -> None:
        if self.unless_cluster is not None and access.cluster(self.unless_cluster):
            return
        for holder in getattr(response, self.within) if self.within else [response]:
            rows = getattr(holder, self.list_name) or []
            kept = [row for row in rows if self._may_know(row, access)]
            if len(kept) < len(rows):
                setattr(holder, self.list_name, kept)

    def _may_know(self, row: object, access: Access) -> bool:
        name = self.name_of(row, access.version, access.topic_name)
        return name is None or access.authorized(self.operation, self.resource_type, name)


@dataclass(frozen=True, slots=True)
class Operations(Check):
    """Authorized operations in an answer (KIP-430)."""

    asked: str  # the request's field that asks for them; "" where they are always told
    resource_type: ResourceType
    list_name: str = ""  # of the rows that have them; "": the answer has
    name_of: NameOf = the_cluster
    attribute: str = "authorized_operations"
    bits: bool = False

    def after(self, request: object, response: object, access: Access) -> None:
        if self.asked and not getattr(request, self.asked, False):
            return
        for row in getattr(response, self.list_name) if self.list_name else [response]:
            name = self.name_of(row, access.version, access.topic_name)
            if name is None or getattr(row, "error_code", None):
                continue
            operations = granted(access.authorized, self.resource_type, name)
            setattr(row, self.attribute, sum(1 << one for one in operations) if self.bits else operations)
