"""ACLs: which principals may do what, and from where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response

from tailrace.access.acls import Acl
from tailrace_gateway.rest.acls import bindings
from tailrace_gateway.rest.acls.models import AclQuery, AclResource, NewAcl, NewAcls, texts
from tailrace_gateway.rest.errors import plain
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.models import Listing, Metadata
from tailrace_gateway.rest.scope import ClusterScope, InCluster

router = APIRouter(route_class=LimitedRoute, prefix="/v3/clusters/{cluster_id}", tags=["ACL"])
_ALL = "This would delete every ACL of the cluster. resource_type=ANY says that it shall."


def acl_url(scope: ClusterScope, fields: dict[str, str]) -> str:
    """The address of the ACLs that have these fields."""
    return f"{scope.url('acls')}?{urlencode(fields)}"


def acl_of(scope: ClusterScope, acl: Acl) -> AclResource:
    """An ACL as a resource."""
    fields = texts(acl)
    metadata = Metadata(self_=acl_url(scope, fields))
    return AclResource.model_validate({**fields, "metadata": metadata, "cluster_id": scope.cluster_id})


@router.get("/acls", response_model=Listing[AclResource])
async def search_acls(scope: InCluster, wanted: Annotated[AclQuery, Query()]) -> Response:
    """Lists the ACLs that the query names; pattern_type=MATCH finds all that count for a resource_name."""
    found = await bindings.matching(scope.backend, wanted.filter())
    return await _listed(scope, found, wanted)


@router.post("/acls", status_code=HTTPStatus.CREATED, response_class=Response)
async def create_acl(scope: InCluster, wanted: NewAcl) -> Response:
    """Creates an ACL; one that is there already stays. Location names it."""
    acl = wanted.acl()
    await bindings.create(scope.backend, [acl])
    return Response(status_code=HTTPStatus.CREATED, headers={"Location": acl_url(scope, texts(acl))})


@router.post("/acls:batch", status_code=HTTPStatus.CREATED, response_class=Response)
async def create_acls(scope: InCluster, wanted: NewAcls) -> Response:
    """Creates several ACLs; each has its own verdict. The first refusal is the answer, and the others are created."""
    await bindings.create(scope.backend, [one.acl() for one in wanted.data])
    return Response(status_code=HTTPStatus.CREATED)


@router.delete("/acls", response_model=Listing[AclResource])
async def delete_acls(scope: InCluster, wanted: Annotated[AclQuery, Query()]) -> Response:
    """Deletes the ACLs that the query names, and lists them; a query of nothing at all is refused."""
    if not wanted.model_fields_set:
        raise plain(HTTPStatus.BAD_REQUEST, _ALL)
    return await _listed(scope, await bindings.delete(scope.backend, wanted.filter()), wanted)


async def _listed(scope: ClusterScope, acls: Sequence[Acl], wanted: AclQuery) -> Response:
    return await scope.listed("KafkaAclList", ("acls",), _rows(scope, acls), wanted.model_dump(exclude_unset=True))


def _rows(scope: ClusterScope, acls: Sequence[Acl]) -> Iterator[AclResource]:
    for acl in sorted(acls, key=lambda one: tuple(texts(one).values())):
        yield acl_of(scope, acl)
