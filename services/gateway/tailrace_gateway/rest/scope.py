"""One request's surroundings: the backend, the cluster, and the addresses of resources as this caller sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Annotated, Final
from urllib.parse import quote, urlencode

from fastapi import Depends, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from tailrace.access.authorizer import Authorizer
from tailrace.clock import Clock
from tailrace.metadata.image import MetadataImage, TopicImage
from tailrace.net.identity import ANONYMOUS
from tailrace_gateway.rest.access.permitted import PermittedAdmin
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.errors import not_found, unknown_topic
from tailrace_gateway.rest.models import Link, Listing, ListMetadata, Metadata

Part = str | int
WHOLE_BYTES: Final = 4 << 20
_PART_BYTES: Final = 64 << 10
_JSON: Final = "application/json"
_NO_QUERY: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Services:
    """What the app was built with."""

    backend: AdminBackend
    clock: Clock
    random: Random
    authorizer: Authorizer | None = None  # without one a user may do everything


class ClusterScope:
    """Builds links below /v3/clusters/<this cluster>."""

    def __init__(self, services: Services, image: MetadataImage, base_url: str) -> None:
        self.backend = services.backend
        self.clock = services.clock
        self.random = services.random
        self.has_acls = services.authorizer is not None
        self.image = image
        self.cluster_id = image.cluster_id
        self.root = f"{base_url.rstrip('/')}/v3/clusters"

    def url(self, *parts: Part) -> str:
        """The address of what these path parts name."""
        return "/".join([self.root, *(quote(str(part), safe="") for part in (self.cluster_id, *parts))])

    def link(self, *parts: Part) -> Link:
        """A link to it."""
        return Link(related=self.url(*parts))

    def metadata(self, *parts: Part) -> Metadata:
        """The metadata of one resource; parts are collection, id, collection, id …"""
        names = [part if at % 2 else f"{str(part).removesuffix('s')}=" for at, part in enumerate(parts)]
        if len(parts) % 2:
            names[-1] = parts[-1]  # a single thing below its owner, as lag-summary
        pairs = "".join(f"/{name}" if not at % 2 else str(name) for at, name in enumerate(names))
        return Metadata(self_=self.url(*parts), resource_name=f"crn:///kafka={self.cluster_id}{pairs}")

    def listing(self, *parts: Part) -> ListMetadata:
        """The metadata of a list."""
        return ListMetadata(self_=self.url(*parts), next=None)

    async def listed(
        self, kind: str, here: tuple[Part, ...], rows: Iterable[BaseModel], query: Mapping[str, str] = _NO_QUERY
    ) -> Response:
        """The answer that is a list of very many rows, made in a thread; query is that of its address.

        rows is a generator, so that no more than one of them is an object at a time. A list beyond WHOLE_BYTES is never
        there as a whole: it is made as the client takes it.
        """
        next_part = partial(next, self._parts(kind, here, rows, query), b"")
        body = bytearray()
        while part := await self.backend.run(next_part):
            body += part
            if len(body) > WHOLE_BYTES:
                return StreamingResponse(self._after(bytes(body), next_part), media_type=_JSON)
        return Response(bytes(body), media_type=_JSON)

    async def streamed(
        self, kind: str, here: tuple[Part, ...], portions: AsyncIterator[Iterable[BaseModel]]
    ) -> Response:
        """The answer that is a list of what has to be asked for, portion by portion, as the client takes it.

        An error of the first portion is the status; a later one cuts the answer off.
        """
        parts = self._portions(kind, here, portions)
        return StreamingResponse(self._chained(await anext(parts), parts), media_type=_JSON)

    async def _chained(self, first: bytes, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        yield first
        async for part in parts:
            yield part

    async def _portions(
        self, kind: str, here: tuple[Part, ...], portions: AsyncIterator[Iterable[BaseModel]]
    ) -> AsyncIterator[bytes]:
        comma = self._head(kind, self.listing(*here))
        async for rows in portions:
            if text := await self.backend.run(partial(_written, rows)):
                yield comma + text
                comma = b","
        yield b"]}" if comma == b"," else comma + b"]}"

    async def _after(self, body: bytes, next_part: Callable[[], bytes]) -> AsyncIterator[bytes]:
        yield body
        while part := await self.backend.run(next_part):
            yield part

    def _parts(
        self, kind: str, here: tuple[Part, ...], rows: Iterable[BaseModel], query: Mapping[str, str]
    ) -> Iterator[bytes]:
        metadata = self.listing(*here)
        if query:
            metadata.self_ += f"?{urlencode(query)}"
        part, comma = bytearray(self._head(kind, metadata)), b""
        for row in rows:
            part += comma + row.model_dump_json(by_alias=True).encode()
            comma = b","
            if len(part) >= _PART_BYTES:
                yield bytes(part)
                part.clear()
        yield bytes(part + b"]}")

    def _head(self, kind: str, metadata: ListMetadata) -> bytes:
        """A list up to its first row."""
        empty = Listing[BaseModel](kind=kind, metadata=metadata, data=[]).model_dump_json(by_alias=True)
        return empty.removesuffix("]}").encode()

    def topic(self, name: str) -> TopicImage:
        """The topic of that name, or 404."""
        topic = self.image.topic(name)
        if topic is None:
            raise unknown_topic()
        return topic


def _written(rows: Iterable[BaseModel]) -> bytes:
    return ",".join(row.model_dump_json(by_alias=True, exclude_unset=True) for row in rows).encode()


def services_of(request: Request) -> Services:
    """The app's services, with the backend as the user that asks may use it."""
    services: Services = request.app.state.services
    if services.authorizer is None:
        return services
    principal = request.scope.get("principal") or ANONYMOUS
    host = request.client.host if request.client else ""
    return replace(services, backend=PermittedAdmin(services.backend, services.authorizer, principal, host))


def any_cluster(request: Request) -> ClusterScope:
    """The scope of a request that names no cluster."""
    services = services_of(request)
    return ClusterScope(services, services.backend.image(), str(request.base_url))


def named_cluster(request: Request, cluster_id: str) -> ClusterScope:
    """The scope of a request that names this cluster; 404 for another."""
    scope = any_cluster(request)
    if cluster_id != scope.cluster_id:
        raise not_found(f"Cluster {cluster_id} cannot be found.")
    return scope


AnyCluster = Annotated[ClusterScope, Depends(any_cluster)]
InCluster = Annotated[ClusterScope, Depends(named_cluster)]
