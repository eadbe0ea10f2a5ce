"""From a decoded request to an encoded answer: the one place where refusals and bugs are told apart.

ApiError is the client's answer; anything else a handler raises is our bug, logged with its traceback and answered
UNKNOWN_SERVER_ERROR. A request that cannot be parsed closes the connection, as in Apache Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from struct import error as StructError
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from tailrace.access import rules
from tailrace.access.authorizer import Authorizer
from tailrace.access.checks import Access, TopicName
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.net.context import Connected, Context, HotConnection
from tailrace.net.large import Large, has_many_rows
from tailrace.net.limits.deadlines import ConnectionDeadlines
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.requests.metrics import RequestMetrics
from tailrace.net.session import ClientSession
from tailrace.net.transport.buffers import SocketBuffers
from tailrace.wire import codec
from tailrace.wire.apis import Api, ApiKey
from tailrace.wire.connection import Promised
from tailrace.wire.encode_buffer import EncodeBuffer
from tailrace.wire.library import struct_of
from tailrace.wire.messages import ApiVersionsResponse
from tailrace.wire.pieces import Answer, Piece

# Request and response are message objects of the api table's classes; a response may be its body in a buffer.
Handler: TypeAlias = Callable[[Any, Context, Any], Awaitable[Any]]


class _Ordinary(Enum):
    ORDINARY = "the ordinary handler takes it"


ORDINARY: Final = _Ordinary.ORDINARY
# What a hot handler returns: pieces now, a slot that gets them later, None for no answer (acks=0), or ORDINARY.
HotAnswer: TypeAlias = list[Piece] | asyncio.Future[list[Piece]] | Promised | _Ordinary | None
# (connection, api version, correlation id, body) -> its answer.
HotHandler: TypeAlias = Callable[[HotConnection, int, int, memoryview], HotAnswer]
HotHandlers: TypeAlias = Mapping[int, tuple[HotHandler, int, int]]  # with the versions they serve
# (connection, whole frame) -> the whole answer. Raises ConnectionError or TimeoutError where none comes.
Relay: TypeAlias = Callable[[HotConnection, memoryview], Awaitable[Answer]]


class RawTokens(Protocol):
    """The SASL of a listener, as a connection sees it: tailrace.net.sasl.authenticator."""

    async def raw_token(self, token: bytes, session: ClientSession) -> bytes:
        """The answer to a token. Raises Malformed where the connection is to be closed without one."""


class InternalLogins(Protocol):
    """The logins of an internal listener's connections: tailrace.net.authentication.server."""

    @property
    def secured(self) -> bool:
        """Whether there is a secret to log in with."""

    def began(self, connection: Connected) -> None:
        """A connection over TCP, which has to log in."""

    def ended(self, connection: Connected, *, begun: bool) -> None:
        """A connection is gone. begun: it had sent something."""

    def refused(self, client: str, why: str) -> None:
        """A connection was closed before any login."""

    def close(self) -> None: ...


def _nothing() -> None:
    return None


def _no_topic(topic_id: UUID) -> str | None:
    """Not None, which stands for an id that is unknown and needs no right."""
    raise LookupError("a request names a topic by id where a service has no names of topics")


def topic_names(image: Callable[[], MetadataImage]) -> TopicName:
    """Names of topics by their ids, in the image of the moment."""

    def topic_name(topic_id: UUID) -> str | None:
        topic = image().topic_by_id(topic_id)
        return None if topic is None else topic.name

    return topic_name


@dataclass(frozen=True)
class Service:
    """What a listener serves: its handlers, the versions it takes, and its bounds.

    end_of_read runs once after all frames of one socket read were handed over, so that their appends go out together.
    """

    role: Any
    handlers: Mapping[int, Handler]
    apis: Mapping[int, Api]
    log: FilteringBoundLogger
    hot: Mapping[int, HotHandler] = field(default_factory=dict)
    end_of_read: Callable[[], None] = _nothing
    internal: bool = True
    listener: str = "INTERNAL"
    authorizer: Authorizer | None = None  # of clients; without one they may do everything
    topic_name: TopicName = _no_topic  # for requests that name topics by id
    authentication: InternalLogins | None = None  # of an internal listener's connections
    max_frame_bytes: int = 104_857_600
    max_connections: int = 10_000
    buffers: SocketBuffers = field(default_factory=SocketBuffers)  # of each TCP connection
    deadlines: ConnectionDeadlines = field(default_factory=ConnectionDeadlines)
    request_metrics: RequestMetrics | None = None  # of the requests that are answered here
    # Whether a client that has ended its side still gets its answers; on_end is called if a relayed one is the last.
    answers_after_end: bool = False
    on_end: Callable[[Any], None] | None = None
    on_close: Callable[[Any], None] | None = None
    sasl: RawTokens | None = None  # takes tokens that have no request around them
    relay: Relay | None = None  # takes the frames of APIs that are not served here (a broker's own client listener)
    large: Large = field(default_factory=Large)
    memory: RoleMemory = field(kw_only=True)  # one for all listeners of a role

    def serves(self, key: int, version: int) -> bool:
        """Whether this listener takes the API in this version."""
        api = self.apis.get(key)
        if api is None or not api.min_version <= version <= api.max_version:
            return False
        return key in self.handlers or key in self.hot


async def answer(service: Service, request: Any, context: Context) -> object:
    """Runs the handler; always returns a message of the API's response class, or its body."""
    key, version = context.api_key, context.api_version
    try:
        if context.connection.session.restricted:
            return await _authorized(service, request, context)
        return await service.handlers[key](request, context, service.role)
    except ApiError as refused:
        return await service.large.refuse(request, key, version, refused.code, refused.message)
    except Exception:  # the dispatch boundary: a bug must not take the service down
        service.log.exception("handler failed", api_key=key, api_version=version, client_id=context.client_id)
        return await service.large.refuse(request, key, version, ErrorCode.UNKNOWN_SERVER_ERROR, None)


async def _authorized(service: Service, request: Any, context: Context) -> object:
    """The answer to a client that may not do everything: what it may do is done, the rest of the request is refused."""
    key, version = context.api_key, context.api_version
    session = context.connection.session
    access = Access(session.authorized, session.authorized_by_resource_type, version, service.topic_name)
    left = rules.before(key, request, access)
    response = None
    if left.request is not None:
        response = await service.handlers[key](left.request, context, service.role)
        if isinstance(response, EncodeBuffer):
            if not left.refused:
                return response
            response = codec.decode_response(key, version, response.body)
        rules.after(key, left.request, response, access)
    for part, code, denied in left.refused:
        if denied is not None:
            session.on_denied(key, denied)
        refused = await service.large.refuse(part, key, version, code)
        response = refused if response is None else joined(response, refused)
    return response


def joined(response: Any, other: Any) -> object:
    """One answer with the rows of both."""
    for name in struct_of(response).fields:
        if type(rows := getattr(other, name, None)) is list and rows:
            setattr(response, name, [*(getattr(response, name) or ()), *rows])
    return response


async def answer_frame(service: Service, request: Any, context: Context) -> bytes | memoryview:
    """The same, encoded as a whole response frame."""
    key, version, correlation_id = context.api_key, context.api_version, context.correlation_id
    if key == ApiKey.METADATA and not request.topics:  # of everything; its body is made by the handler
        await service.memory.answers.room(context.connection)
    response = await answer(service, request, context)
    if isinstance(response, EncodeBuffer):  # a body that its handler wrote, of many rows
        service.memory.answers.hold(context.connection, response.pos)
        return response.response_frame(key, version, correlation_id)
    if has_many_rows(response):
        await service.memory.answers.room(context.connection)
    frame = await _encoded(service, request, response, context)
    service.memory.answers.hold(context.connection, len(frame))
    return frame


async def _encoded(service: Service, request: Any, response: Any, context: Context) -> bytes | memoryview:
    key, version, correlation_id = context.api_key, context.api_version, context.correlation_id
    try:
        return await service.large.encode(response, version, correlation_id)
    except (StructError, TypeError, ValueError, AttributeError):  # what the codec makes of a value that has no room
        service.log.exception("answer not encoded", api_key=key, api_version=version, client_id=context.client_id)
        # As Apache Kafka does.
        refused = await service.large.refuse(request, key, version, ErrorCode.UNKNOWN_SERVER_ERROR, None)
        return await service.large.encode(refused, version, correlation_id)


def api_versions(service: Service, version: int, correlation_id: int) -> bytes:
    """The answer of a service without an ApiVersions handler: what it serves. A gateway clamps its own table to it.

    KIP-511: an unknown version is answered with a v0 body and UNSUPPORTED_VERSION, listing ApiVersions itself.
    """
    known = service.apis[ApiKey.API_VERSIONS]
    served = known.min_version <= version <= known.max_version
    rows = (
        [api for key, api in sorted(service.apis.items()) if service.serves(key, api.min_version)]
        if served
        else [known]
    )
    row = ApiVersionsResponse.ApiVersion
    response = ApiVersionsResponse(
        error_code=ErrorCode.NONE if served else ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[row(api_key=api.key, min_version=api.min_version, max_version=api.max_version) for api in rows],
    )
    return codec.encode_response(response, version if served else 0, correlation_id)
